import type { Metadata } from "./metadata.ts";

/**
 * States of a transcription and the only moves between them (docs/interface.md section 3.1,
 * docs/decisions/transcriptions.md).
 */
export const TRANSCRIPTION_STATES = [
  "queued",
  "preparing",
  "transcribing",
  "finalizing",
  "completed",
  "partial",
  "failed",
  "cancelled",
] as const;
export type TranscriptionState = (typeof TRANSCRIPTION_STATES)[number];

export const FINAL_STATES = ["completed", "partial", "failed", "cancelled"] as const;
export type FinalState = (typeof FINAL_STATES)[number];
export type UnfinishedState = Exclude<TranscriptionState, FinalState>;
export const UNFINISHED_STATES = ["queued", "preparing", "transcribing", "finalizing"] as const;

export const TRANSCRIPTION_TRIGGERS = [
  /** The scheduler begins with it. */
  "claim",
  /** Audio is decoded and speech is found. */
  "prepared",
  /** Every chunk has an outcome. */
  "transcribed",
  /** The program stopped. The work continues after its last finished chunk. */
  "requeue",
  "complete",
  "complete_partially",
  "fail",
  "cancel",
] as const;
export type TranscriptionTrigger = (typeof TRANSCRIPTION_TRIGGERS)[number];

const MOVES: Record<TranscriptionState, Partial<Record<TranscriptionTrigger, TranscriptionState>>> = {
  queued: { claim: "preparing", fail: "failed", cancel: "cancelled" },
  preparing: { prepared: "transcribing", requeue: "queued", fail: "failed", cancel: "cancelled" },
  transcribing: { transcribed: "finalizing", requeue: "queued", fail: "failed", cancel: "cancelled" },
  finalizing: {
    complete: "completed",
    complete_partially: "partial",
    requeue: "queued",
    fail: "failed",
    cancel: "cancelled",
  },
  completed: {},
  partial: {},
  failed: {},
  cancelled: {},
};

/** Returns the state that a trigger leads to; undefined: the move does not exist. */
export function nextTranscriptionState(
  state: TranscriptionState,
  trigger: TranscriptionTrigger,
): TranscriptionState | undefined {
  return MOVES[state][trigger];
}

/** Returns the states that allow a trigger: the "compare" of the store's compare-and-set. */
export function statesAllowing(trigger: TranscriptionTrigger): TranscriptionState[] {
  return TRANSCRIPTION_STATES.filter((state) => MOVES[state][trigger] !== undefined);
}

export function isFinal(state: TranscriptionState): state is FinalState {
  return (FINAL_STATES as readonly string[]).includes(state);
}

export const MODES = ["native", "codemix", "verbatim"] as const;
export type Mode = (typeof MODES)[number];

export const TIMESTAMPS = ["none", "segment", "word"] as const;
export type Timestamps = (typeof TIMESTAMPS)[number];

export const CHANNEL_MODES = ["mix", "separate"] as const;
export type ChannelMode = (typeof CHANNEL_MODES)[number];

/** What becomes of speech: its own words, or English ones. */
export const TASKS = ["transcribe", "translate"] as const;
export type Task = (typeof TASKS)[number];

/** How numbers, money, dates and times are written: as they were said, or in figures. */
export const NUMERALS = ["spoken", "written"] as const;
export type Numerals = (typeof NUMERALS)[number];

/** The most speakers that can be found or asked for (docs/decisions/transcriptions.md). */
export const MAX_SPEAKERS = 20;

/** How many speakers a caller expects. Without bounds the number is estimated. */
export type DiarizationRequest = { minSpeakers?: number; maxSpeakers?: number };

/** The values of a request, with defaults filled in (docs/interface.md section 2.1). */
export type TranscriptionRequest = {
  /** The language that is spoken. */
  language: string;
  /** Absent: the text is in the language that is spoken (docs/decisions/extensions.md). */
  task?: "translate";
  mode: Mode;
  timestamps: Timestamps;
  /** Absent: no speaker labels. */
  diarization?: DiarizationRequest;
  channelMode: ChannelMode;
  /** Absent: as they were said (docs/decisions/extensions.md). */
  numerals?: "written";
  /** The script of the text, such as `latin` or `deva`. Absent: that of the language. */
  script?: string;
  /** What the client notes of it. Absent: nothing. */
  metadata?: Metadata;
};

/** Returns the language of the text that a request asks for: of a translation English, else the one that is spoken. */
export function textLanguageOf({ language, task }: { language: string; task?: "translate" | null }): string {
  return task === "translate" ? "en" : language;
}

/** The way in which work was submitted. Synchronous work goes first. */
export const SUBMISSIONS = ["asynchronous", "synchronous"] as const;
export type Submission = (typeof SUBMISSIONS)[number];

/** Returns how many channels are recognized: all with `separate`, else the one that is mixed down. */
export function recognizedChannels({
  channelMode,
  channels,
}: {
  channelMode: ChannelMode;
  channels: number;
}): number {
  return channelMode === "separate" ? channels : 1;
}

/**
 * Returns the time that a whole recording is recognized, and billed: its duration once for each channel that is
 * recognized, milliseconds. Speech that stays without text (gaps) is subtracted where a transcription ends.
 */
export function billedMsOf(row: { durationMs: number; channelMode: ChannelMode; channels: number }): number {
  return row.durationMs * recognizedChannels(row);
}
