import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { Transcription } from "../../http/wire/schemas.ts";
import { linkTo, route } from "../lib/address.ts";
import { canDrop } from "../lib/pointer.ts";
import { names } from "../notes/names.ts";
import { announce } from "../parts/announce.tsx";
import { Bar } from "../parts/bar.tsx";
import { FailureBox } from "../parts/failure-box.tsx";
import { Icon, type IconName } from "../parts/icons.tsx";
import { hasMetadata } from "../session.ts";
import { ago, clock, languageName, length, moment, percent } from "../words/format.ts";
import { words } from "../words/words.ts";
import {
  choose,
  chooseMetadata,
  FILTERS,
  type Filter,
  filter,
  hasOlder,
  isLoadingOlder,
  isUnfinished,
  items,
  listFailure,
  loadOlder,
  metadataFilter,
  metadataPairOf,
  now,
  refreshList,
  remainingSeconds,
  shareOf,
  watchList,
} from "./transcriptions.ts";

const ICONS: Record<Transcription["state"], IconName> = {
  queued: "waiting",
  preparing: "working",
  transcribing: "working",
  finalizing: "working",
  completed: "done",
  partial: "partial",
  failed: "failed",
  cancelled: "cancelled",
};

/** A state: a word with a shape. */
export function StateMark({ state }: { state: Transcription["state"] }) {
  return (
    <span class={`state state-${state}`}>
      <Icon name={ICONS[state]} />
      {words.value.states[state]}
    </span>
  );
}

/** The name of a recording, or a description where this browser knows none. */
export function nameOf({ id, request }: Transcription): string {
  return names.value.get(id) ?? words.value.list.unnamed(languageName(request.language));
}

/** The column of recordings: transcriptions, newest first. @param children what stands above them */
export function RecordingList({ children }: { children: ComponentChildren }) {
  const t = words.value.list;
  useEffect(watchList, []);
  useAnnouncedEnds();
  // For `offline` the page has a message above the list. After `rate_limited` the list is read again by itself.
  const code = listFailure.value?.code;
  const isQuiet = (code === "offline" || code === "rate_limited") && items.value !== undefined;
  return (
    <nav class="list" aria-label={t.title}>
      {children}
      <Filters />
      {hasMetadata.value && <MetadataFilter />}
      {listFailure.value && !isQuiet && (
        <FailureBox failure={listFailure.value} isSmall isRepeated onRetry={() => void refreshList()} />
      )}
      <Entries />
      {hasOlder.value && (
        <button type="button" class="older" disabled={isLoadingOlder.value} onClick={() => void loadOlder()}>
          {isLoadingOlder.value ? words.value.loading : t.older}
        </button>
      )}
    </nav>
  );
}

function Filters() {
  const t = words.value.list;
  return (
    <fieldset class="filters" aria-label={t.filterLabel}>
      {(Object.keys(FILTERS) as Filter[]).map((one) => (
        <button key={one} type="button" aria-pressed={filter.value === one} onClick={() => choose(one)}>
          {t.filters[one]}
        </button>
      ))}
    </fieldset>
  );
}

/** Finds recordings by a name and a value of their metadata. */
function MetadataFilter() {
  const t = words.value.list;
  const [name, value] = metadataFilter.value ?? [];
  const text = name === undefined ? "" : `${name}=${value}`;
  const use = (typed: string) => {
    const pair = metadataPairOf(typed);
    if (pair || typed.trim() === "") chooseMetadata(pair);
  };
  return (
    <form
      class="metadata-filter"
      onSubmit={(event) => {
        event.preventDefault();
        use(String(new FormData(event.currentTarget).get("metadata")));
      }}
    >
      <input
        key={text}
        name="metadata"
        type="search"
        defaultValue={text}
        aria-label={t.metadata}
        title={t.metadataHelp}
        placeholder={t.metadataExample}
        pattern="\s*[A-Za-z0-9_\-]+\s*=.*"
        maxLength={560}
        onInput={({ currentTarget }) => {
          if (currentTarget.value === "" && metadataFilter.value) chooseMetadata(undefined);
        }}
      />
      <button type="submit">{t.metadataFind}</button>
    </form>
  );
}

function Entries() {
  const t = words.value.list;
  const list = items.value;
  if (list === undefined) {
    return listFailure.value ? null : (
      <p class="empty" aria-busy="true">
        {words.value.loading}
      </p>
    );
  }
  if (list.length === 0) {
    const empty = canDrop ? t.empty : t.emptyWithoutDrop;
    if (metadataFilter.value) return <p class="empty">{t.emptyMetadata}</p>;
    return <p class="empty">{filter.value === "all" ? empty : t.emptyFiltered}</p>;
  }
  return (
    <ul>
      {list.map((one) => (
        <Entry key={one.id} one={one} />
      ))}
    </ul>
  );
}

function Entry({ one }: { one: Transcription }) {
  const [view, id] = route.value;
  const isCurrent = view === "t" && id === one.id;
  const { request, duration_seconds: seconds } = one;
  const isOver = !isUnfinished(one);
  return (
    <li>
      <a href={linkTo("t", one.id)} class="entry" aria-current={isCurrent ? "page" : undefined}>
        <span class="entry-name">{nameOf(one)}</span>
        <span class="entry-time" title={moment(one.created_at)}>
          {ago(one.created_at, now.value)}
        </span>
        <span class="entry-state">
          <StateMark state={one.state} />
          {one.content_deleted_at !== undefined && <span class="muted"> · {words.value.list.deleted}</span>}
        </span>
        <span class="entry-facts muted">
          {languageName(request.language)}
          {seconds !== undefined && ` · ${clock(seconds)}`}
        </span>
        {!isOver && <Progress one={one} />}
      </a>
    </li>
  );
}

/** How far a transcription is, and how long it may still take. */
export function Progress({ one }: { one: Transcription }) {
  const t = words.value.list;
  const left = remainingSeconds(one, now.value);
  const share = shareOf(one);
  const position = one.state === "queued" ? one.queue_position : undefined;
  return (
    <span class="entry-progress">
      {position !== undefined && share === 0 ? (
        <span class="muted">{t.ahead(position)}</span>
      ) : (
        <>
          <Bar share={share} label={nameOf(one)} />
          <span class="muted">
            {percent(share)}
            {left !== undefined && ` · ${t.left(length(left))}`}
          </span>
        </>
      )}
    </span>
  );
}

const ended = new Set<string>();
const running = new Set<string>();

/** Says when a recording that this page saw running has ended. */
function useAnnouncedEnds(): void {
  const list = items.value;
  useEffect(() => {
    for (const one of list ?? []) {
      if (isUnfinished(one)) running.add(one.id);
      else if (running.has(one.id) && !ended.has(one.id)) {
        ended.add(one.id);
        announce(`${nameOf(one)}: ${words.value.states[one.state]}`);
      }
    }
  }, [list]);
}
