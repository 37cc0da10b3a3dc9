import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Transcription } from "../../http/wire/schemas.ts";
import { linkTo } from "../lib/address.ts";
import { FailureBox } from "../parts/failure-box.tsx";
import { Icon } from "../parts/icons.tsx";
import { openKeys } from "../parts/keys-dialog.tsx";
import { SaidInEnglish } from "../parts/said-in-english.tsx";
import { nameOf, Progress, StateMark } from "../transcriptions/list.tsx";
import { isUnfinished, now } from "../transcriptions/transcriptions.ts";
import { clock, languageName } from "../words/format.ts";
import { failureWords, words } from "../words/words.ts";
import { isField, onKey } from "./acts.ts";
import { Facts } from "./facts.tsx";
import { SegmentList } from "./segment-list.tsx";
import { openTranscript, type TranscriptModel } from "./shown-transcript.ts";
import { PlacesBar, PlayBar, SearchBar } from "./toolbar.tsx";
import { WaveformView } from "./waveform.tsx";

/** A transcription: its words, its sound, and facts about it. */
export function TranscriptView({ id }: { id: string }) {
  const model = useMemo(() => openTranscript(id), [id]);
  useEffect(() => model.close, [model]);
  const isSearching = useSignal(false);
  const areFactsOpen = useSignal(false);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key === "?" && !isField(event.target)) openKeys();
      const isMeant = onKey(model, event, () => {
        isSearching.value = true;
      });
      if (isMeant) event.preventDefault();
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, [model]);
  const one = model.transcription.value;
  const failure = model.failure.value;
  if (!one) {
    return failure ? (
      <div class="view-failure">
        <BackLink />
        <h1 class="unseen">{words.value.list.title}</h1>
        <FailureBox failure={failure} isRepeated onRetry={() => void model.retry()} />
      </div>
    ) : (
      <p class="empty" aria-busy="true">
        {words.value.loading}
      </p>
    );
  }
  return (
    <div class={areFactsOpen.value ? "transcript facts-open" : "transcript"}>
      <div class="transcript-main">
        <Title
          one={one}
          hasWords={model.result.value !== undefined}
          areFactsOpen={areFactsOpen}
          onSearch={() => {
            isSearching.value = !isSearching.value;
          }}
        />
        {failure && <FailureBox failure={failure} isSmall isRepeated onRetry={() => void model.retry()} />}
        <SearchBar
          model={model}
          isOpen={isSearching.value}
          onClose={() => {
            isSearching.value = false;
          }}
        />
        <Content model={model} one={one} />
      </div>
      <Facts model={model} one={one} />
    </div>
  );
}

function BackLink() {
  return (
    <a href={linkTo()} class="button quiet back-link">
      <Icon name="back" />
      <span class="unseen">{words.value.back}</span>
    </a>
  );
}

type TitleProps = {
  one: Transcription;
  hasWords: boolean;
  areFactsOpen: Signal<boolean>;
  onSearch: () => void;
};

function Title({ one, hasWords, areFactsOpen, onSearch }: TitleProps) {
  const { request, duration_seconds: seconds } = one;
  return (
    <header class="transcript-head">
      <BackLink />
      <div>
        <h1>{nameOf(one)}</h1>
        <p class="muted small">
          <StateMark state={one.state} /> · {languageName(request.language)}
          {seconds !== undefined && ` · ${clock(seconds)}`}
        </p>
      </div>
      <span class="spring" />
      {hasWords && (
        <button
          type="button"
          class="quiet search-button"
          onClick={onSearch}
          title={words.value.transcript.search}
        >
          <Icon name="search" />
          <span class="unseen">{words.value.transcript.search}</span>
        </button>
      )}
      <FactsButton areOpen={areFactsOpen} />
    </header>
  );
}

/** Shows and hides the facts where the page is too narrow for a column of them. */
function FactsButton({ areOpen }: { areOpen: Signal<boolean> }) {
  const t = words.value.facts;
  return (
    <button
      type="button"
      class="quiet facts-button"
      title={t.open}
      aria-expanded={areOpen.value}
      aria-controls="facts"
      onClick={() => {
        areOpen.value = !areOpen.value;
      }}
    >
      <Icon name={areOpen.value ? "close" : "download"} />
      <span>{t.open}</span>
    </button>
  );
}

/** What there is instead of words, or the words. */
function Content({ model, one }: { model: TranscriptModel; one: Transcription }) {
  const t = words.value.transcript;
  void now.value;
  if (isUnfinished(one)) {
    return (
      <div class="running">
        <p>{words.value.stateHelp[one.state as keyof typeof words.value.stateHelp]}</p>
        <Progress one={one} />
        <p class="muted">{t.notReady}</p>
      </div>
    );
  }
  if (one.content_deleted_at !== undefined) return <Ended title={t.deletedTitle} text={t.deletedMeaning} />;
  if (one.state === "cancelled") return <Ended title={t.cancelledTitle} text={t.cancelledMeaning} />;
  if (one.state === "failed") {
    const { what, advice } = failureWords(one.error?.code ?? "other");
    return (
      <Ended
        title={t.failedTitle}
        text={`${what} ${t.noCharge} ${advice}`}
        detail={one.error?.message ?? ""}
        isBad
      />
    );
  }
  if (!model.result.value) {
    return (
      <p class="empty" aria-busy="true">
        {words.value.loading}
      </p>
    );
  }
  return (
    <>
      <Sound model={model} />
      <NotKept model={model} />
      <PlacesBar model={model} />
      {model.segments.value.length === 0 && model.rows.value.length === 0 ? (
        <p class="empty">{t.none}</p>
      ) : (
        <SegmentList model={model} />
      )}
    </>
  );
}

function Ended({
  title,
  text,
  detail = "",
  isBad = false,
}: {
  title: string;
  text: string;
  detail?: string;
  isBad?: boolean;
}) {
  return (
    <div class={isBad ? "failure ended" : "note ended"}>
      <Icon name={isBad ? "failed" : "info"} />
      <div>
        <p>
          <strong>{title}</strong>
        </p>
        <p>{text}</p>
        {detail !== "" && <SaidInEnglish>{detail}</SaidInEnglish>}
      </div>
    </div>
  );
}

/** Says so where the browser keeps no correction. */
function NotKept({ model }: { model: TranscriptModel }) {
  if (model.corrections.isKept.value) return null;
  return (
    <p class="note sound-note" role="status">
      <Icon name="failed" /> {words.value.transcript.notKept}
    </p>
  );
}

/** Waveform and player, or why there are none. */
function Sound({ model }: { model: TranscriptModel }) {
  const t = words.value.transcript;
  const { waveform, player, waveformFailure } = model;
  const failure = waveformFailure.value;
  if (failure) {
    const isGone = failure.code === "content_deleted";
    const isMissing = isGone || failure.code === "not_found" || failure.code === "method_not_allowed";
    return isMissing ? (
      <p class="note sound-note">
        <Icon name="info" /> {isGone ? t.audioGone : t.audioMissing}
      </p>
    ) : (
      <FailureBox failure={failure} isSmall />
    );
  }
  return (
    <div class="sound">
      {waveform.value && player.value ? (
        <WaveformView model={model} waveform={waveform.value} player={player.value} />
      ) : (
        <div class="waveform-place" aria-busy="true" />
      )}
      {player.value?.hasFailed.value ? (
        <p class="note sound-note">
          <Icon name="info" /> {t.audioMissing}
        </p>
      ) : (
        <PlayBar model={model} />
      )}
    </div>
  );
}
