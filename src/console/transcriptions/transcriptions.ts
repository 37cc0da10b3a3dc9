import { computed, signal } from "@preact/signals";
import type { Transcription, TranscriptionList } from "../../http/wire/schemas.ts";
import { asFailure, type Failure } from "../lib/api.ts";
import { patiently, seldom } from "../lib/patience.ts";
import { forgetDeleted } from "../notes/forgetting.ts";
import { account, read, refreshAccount } from "../session.ts";

/** Choices of the list; each is several states of the interface. */
export const FILTERS = {
  all: [],
  running: ["queued", "preparing", "transcribing", "finalizing"],
  done: ["completed", "partial"],
  failed: ["failed", "cancelled"],
} as const satisfies Record<string, readonly Transcription["state"][]>;
export type Filter = keyof typeof FILTERS;

const UNFINISHED: ReadonlySet<string> = new Set(FILTERS.running);
export const isUnfinished = ({ state }: Transcription): boolean => UNFINISHED.has(state);

const PAGE = 50;
const LIVE_MS = 1000;
const QUIET_MS = 10_000;
/** The states of unfinished ones below the newest page are read this often. */
const DEEP_MS = 4000;
const LARGE_PAGE = 100;

export const filter = signal<Filter>("all");
/** A name and a value of the metadata that everything in the list has; undefined: all is shown. */
export const metadataFilter = signal<readonly [name: string, value: string] | undefined>(undefined);
/** Undefined before the first page has come. */
export const items = signal<readonly Transcription[] | undefined>(undefined);
export const listFailure = signal<Failure | undefined>(undefined);
export const isLoadingOlder = signal(false);
/** The `after` of the following page; null on the last. */
const older = signal<string | null>(null);
export const hasOlder = computed(() => older.value !== null);
export const now = signal(Date.now());

/** Shares that were shown; a share does not go back when the server starts again. */
const shown = new Map<string, number>();
/** First share that this page has seen of a transcription, for the time that is left. */
const began = new Map<string, { at: number; share: number }>();

let timer: ReturnType<typeof setTimeout> | undefined;
let isWatching = false;
let deepAt = Number.NEGATIVE_INFINITY;
const refreshAccountSeldom = seldom(LIVE_MS, () => void refreshAccount());
/** An admin may grant credit at any time. */
const CREDIT_MS = 30_000;
let creditAt = Number.NEGATIVE_INFINITY;

function refreshCreditSeldom(): void {
  // A key without the right to see it is not refused again and again.
  if (account.value === undefined || performance.now() - creditAt < CREDIT_MS) return;
  creditAt = performance.now();
  void refreshAccount();
}

/** What the list asks for now. An answer to another query is dropped. */
const queryNow = () => {
  const states = FILTERS[filter.value];
  const [name, value] = metadataFilter.value ?? [];
  const ofStates = states.length === 0 ? "" : `&state=${states.join(",")}`;
  return name === undefined ? ofStates : `${ofStates}&metadata[${name}]=${encodeURIComponent(value ?? "")}`;
};

/** Shows transcriptions of some states. */
export function choose(which: Filter): void {
  filter.value = which;
  readAnew();
}

/** Shows transcriptions that have a value in their metadata; undefined: all. */
export function chooseMetadata(pair: readonly [name: string, value: string] | undefined): void {
  metadataFilter.value = pair;
  readAnew();
}

/** Reads what a person writes, such as `agent=12`. */
export function metadataPairOf(text: string): readonly [name: string, value: string] | undefined {
  const [, name, value] = /^\s*([A-Za-z0-9_-]+)\s*=\s*(.*?)\s*$/u.exec(text) ?? [];
  return name === undefined || value === undefined ? undefined : [name, value];
}

function readAnew(): void {
  items.value = undefined;
  older.value = null;
  void refreshList();
}

/** The newest transcription that is shown. A read down to it leaves no gap. */
const newestShown = (): string | undefined => items.value?.[0]?.id;

/** The oldest one that is shown as unfinished, because its state may be another by now. Without one: the newest. */
const lowestToRead = (list: readonly Transcription[] | undefined): string | undefined =>
  list?.findLast(isUnfinished)?.id ?? list?.[0]?.id;

/**
 * Reads the newest page and those that follow, as far as a transcription.
 *
 * @param lowest ID of that transcription; undefined: one page
 * @returns the pages as one; undefined when another filter was chosen meanwhile
 */
async function readPages(query: string, lowest: string | undefined): Promise<TranscriptionList | undefined> {
  const data: Transcription[] = [];
  for (let after = ""; ; ) {
    const limit = after === "" ? PAGE : LARGE_PAGE;
    const readPage = () => read<TranscriptionList>(`v1/transcriptions?limit=${limit}${after}${query}`);
    // Many pages can be more requests than the server takes at once. Without those that follow, none would be shown.
    const page = await (after === "" ? readPage() : patiently(readPage, () => true));
    if (query !== queryNow()) return undefined;
    forgetDeleted(page.data);
    data.push(...page.data);
    // With metadata a page may be empty while others follow: `next` says how far it has looked.
    if (page.next === null || lowest === undefined || page.next <= lowest) return { ...page, data };
    after = `&after=${page.next}`;
  }
}

/** Reads the newest page, and keeps older pages that are shown. */
export async function refreshList(): Promise<void> {
  const query = queryNow();
  try {
    const isDeep = performance.now() - deepAt >= DEEP_MS;
    const page = await readPages(query, isDeep ? lowestToRead(items.value) : newestShown());
    if (page === undefined) return;
    if (isDeep) deepAt = performance.now();
    const before = items.value;
    const isFirst = before === undefined;
    const { next } = page;
    const rest = isFirst || next === null ? [] : before.filter(({ id }) => id < next);
    const hasEnded = before?.some((one) => isUnfinished(one) && !stillRuns(page.data, one.id)) ?? false;
    items.value = [...page.data, ...rest];
    if (isFirst || next === null || rest.length === 0) older.value = next;
    listFailure.value = undefined;
    if (hasEnded) refreshAccountSeldom();
  } catch (error) {
    listFailure.value = asFailure(error);
  } finally {
    now.value = Date.now();
  }
}

const stillRuns = (data: readonly Transcription[], id: string) => {
  const found = data.find((one) => one.id === id);
  return found === undefined || isUnfinished(found);
};

/** Reads the following page. */
export async function loadOlder(): Promise<void> {
  const after = older.value;
  const query = queryNow();
  if (after === null || isLoadingOlder.value) return;
  isLoadingOlder.value = true;
  try {
    const page = await read<TranscriptionList>(`v1/transcriptions?limit=${PAGE}&after=${after}${query}`);
    if (query !== queryNow()) return;
    forgetDeleted(page.data);
    items.value = [...(items.value ?? []), ...page.data];
    older.value = page.next;
  } catch (error) {
    listFailure.value = asFailure(error);
  } finally {
    isLoadingOlder.value = false;
  }
}

async function look(): Promise<void> {
  clearTimeout(timer);
  if (!document.hidden) {
    await refreshList();
    refreshCreditSeldom();
  }
  if (!isWatching) return;
  const isLive = items.value?.some(isUnfinished) ?? true;
  const askedMs = 1000 * (listFailure.value?.options.retryAfterSeconds ?? 0);
  clearTimeout(timer);
  timer = setTimeout(() => void look(), Math.max(askedMs, isLive ? LIVE_MS : QUIET_MS));
}

/** Keeps the list true until it is called off: often while something runs, seldom otherwise, never in the background. */
export function watchList(): () => void {
  isWatching = true;
  const onVisible = () => {
    if (!document.hidden) void look();
  };
  document.addEventListener("visibilitychange", onVisible);
  void look();
  return () => {
    isWatching = false;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onVisible);
  };
}

/** Looks at once, because this page has started or changed something. */
export const lookNow = (): void => void look();

/** The share of a transcription that is done, 0 to 1. It never goes back. */
export function shareOf({ id, progress = 0 }: Transcription): number {
  const share = Math.max(shown.get(id) ?? 0, progress);
  shown.set(id, share);
  return share;
}

/** Seconds that are left, from the pace that this page has seen; undefined while that says too little. */
export function remainingSeconds(one: Transcription, at: number): number | undefined {
  if (one.state !== "transcribing") return undefined;
  const share = shareOf(one);
  const first = began.get(one.id);
  if (!first) {
    began.set(one.id, { at, share });
    return undefined;
  }
  const gained = share - first.share;
  const seconds = (at - first.at) / 1000;
  if (gained < 0.02 || seconds < 2) return undefined;
  return (seconds / gained) * (1 - share);
}
