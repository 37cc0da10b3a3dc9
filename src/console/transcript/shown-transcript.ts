import { computed, effect, signal } from "@preact/signals";
import type {
  AudioLink,
  Transcription,
  TranscriptionResult,
  Waveform as WireWaveform,
} from "../../http/wire/schemas.ts";
import { sameOrigin } from "../lib/address.ts";
import { asFailure, type Failure } from "../lib/api.ts";
import { OFFLINE_SECONDS, secondsToWait } from "../lib/patience.ts";
import { createCorrections } from "../notes/corrections.ts";
import { forgetDeleted, forgetOne } from "../notes/forgetting.ts";
import { loadSpeakerNames, speakersIn } from "../notes/speakers.ts";
import { read } from "../session.ts";
import { isUnfinished, lookNow } from "../transcriptions/transcriptions.ts";
import { createPlayer, type Player } from "./player.ts";
import { isPlace, type Row, rowAt, rowsOf, type SilentStretch, spokenOf } from "./rows.ts";
import { matchesIn } from "./search.ts";
import { silentStretches, unrecognizedStretches } from "./silent-stretches.ts";
import { unpackWaveform, type Waveform } from "./waveform-data.ts";

/** One transcription as it is shown, with everything a person does to it. */
export type TranscriptModel = ReturnType<typeof openTranscript>;

const POLL_MS = 1000;
const NO_SEGMENTS: TranscriptionResult["segments"] = [];

/** Stretches of speech without words: those that the result names, and those that only the waveform shows. */
function stretchesIn(
  result: TranscriptionResult | undefined,
  waveform: Waveform | undefined,
): SilentStretch[] {
  const { segments = NO_SEGMENTS, gaps = [], unrecognized = [] } = result ?? {};
  const told = unrecognizedStretches(segments, unrecognized);
  if (!waveform) return told;
  return [...told, ...silentStretches(waveform, segments, [...gaps, ...told])];
}

const isOffline = (error: unknown) => asFailure(error).code === "offline";

/** Opens a transcription: waits until it has ended, then reads its words, its waveform, and a link to its sound. */
export function openTranscript(id: string) {
  const transcription = signal<Transcription | undefined>(undefined);
  const failure = signal<Failure | undefined>(undefined);
  const result = signal<TranscriptionResult | undefined>(undefined);
  const waveform = signal<Waveform | undefined>(undefined);
  const waveformFailure = signal<Failure | undefined>(undefined);
  const player = signal<Player | undefined>(undefined);
  const corrections = createCorrections(id);
  const hiddenSpeakers = signal<ReadonlySet<string>>(new Set());
  const query = signal("");
  /** The row with the focus of the keyboard, in `rows`. */
  const focused = signal(0);
  /** The segment whose text a person types. Others may be open, too: `corrections.drafts`. */
  const editing = signal<number | undefined>(undefined);
  /** Counts how often a person has asked for a text to be opened: then the keyboard goes there. */
  const called = signal(0);
  /** The row under the pointer; -1: none. */
  const pointed = signal(-1);
  const isFollowing = signal(true);
  const showsSpoken = signal(false); // Below each text, the words as they were said.
  /** Step of the waveform's zoom; 0: all of it. */
  const zoom = signal(0);
  const abort = new AbortController();

  const segments = computed(() => result.value?.segments ?? NO_SEGMENTS);
  const stretches = computed(() => stretchesIn(result.value, waveform.value));
  const textOf = (index: number): string =>
    corrections.all.value.get(index)?.text ?? segments.value[index]?.text ?? "";
  const rows = computed<readonly Row[]>(() => {
    const hidden = hiddenSpeakers.value;
    const shown = segments.value.filter(({ speaker }) => speaker === undefined || !hidden.has(speaker));
    return rowsOf(shown, result.value?.gaps ?? [], stretches.value);
  });
  const places = computed(() => {
    const all = corrections.all.value;
    return rows.value.flatMap((row, index) => (isPlace(row, (segment) => all.has(segment)) ? [index] : []));
  });
  const matches = computed(() =>
    rows.value.flatMap((row, index) =>
      row.kind === "segment"
        ? matchesIn(textOf(row.segment.index), query.value).map((match) => ({ row: index, ...match }))
        : [],
    ),
  );
  /** The row that is heard; -1 before the first, and where nothing has been played. */
  const heard = computed(() => (player.value ? rowAt(rows.value, player.value.time.value) : -1));

  const readEverything = async () => {
    void corrections.load();
    void loadSpeakerNames(id);
    result.value = await read<TranscriptionResult>(`v1/transcriptions/${id}/result`, {
      signal: abort.signal,
    });
    void readSound();
  };
  const readLink = async () => {
    const path = `v1/transcriptions/${id}/audio_links`;
    return sameOrigin((await read<AudioLink>(path, { method: "POST", signal: abort.signal })).url);
  };
  const readSound = async (tries = 1) => {
    try {
      const [address, wire] = await Promise.all([
        readLink(),
        read<WireWaveform>(`v1/transcriptions/${id}/waveform`, { signal: abort.signal }),
      ]);
      if (abort.signal.aborted) return;
      player.value = createPlayer(address, readLink);
      waveform.value = unpackWaveform(wire);
    } catch (error) {
      if (abort.signal.aborted) return;
      const seconds = isOffline(error) ? OFFLINE_SECONDS : secondsToWait(error, tries);
      if (seconds === undefined) waveformFailure.value = asFailure(error);
      else setTimeout(() => void readSound(tries + 1), 1000 * seconds);
    }
  };
  const poll = async () => {
    try {
      const now = await read<Transcription>(`v1/transcriptions/${id}`, { signal: abort.signal });
      failure.value = undefined;
      transcription.value = now;
      forgetDeleted([now]);
      if (isUnfinished(now)) return void setTimeout(poll, POLL_MS);
      const hasWords = now.state === "completed" || now.state === "partial";
      if (hasWords && now.content_deleted_at === undefined) await readEverything();
    } catch (error) {
      if (abort.signal.aborted) return;
      failure.value = asFailure(error);
      // It was deleted between the two requests.
      if (failure.value.code === "content_deleted") void forgetOne(id).catch(() => undefined);
      if (isOffline(error)) setTimeout(poll, 1000 * OFFLINE_SECONDS);
    }
  };
  void poll();
  const stopFollowing = effect(() => {
    // While a person types, the text does not follow the sound.
    if (isFollowing.value && heard.value >= 0 && editing.value === undefined) focused.value = heard.value;
  });

  return {
    ...{ id, transcription, failure, result, waveform, waveformFailure, player, corrections },
    ...{ hiddenSpeakers, query, focused, editing, called, pointed, isFollowing, showsSpoken, zoom },
    hasSpoken: computed(() => segments.value.some((segment) => spokenOf(segment) !== undefined)),
    ...{ segments, stretches, textOf, rows, places, matches, heard },
    speakers: computed(() => speakersIn(segments.value)),
    retry: poll,
    /** Reads the record again after it was changed. */
    async refresh() {
      result.value = undefined;
      await poll();
      lookNow();
    },
    close() {
      abort.abort();
      stopFollowing();
      corrections.close();
      player.value?.close();
      player.value = undefined; // A click that still waits for a second one plays nothing any more.
    },
  };
}
