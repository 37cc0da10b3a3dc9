import type { SpeakerWeightHashes } from "../domain/model.ts";
import type { Warning } from "../domain/result.ts";
import type { DiarizationRequest } from "../domain/transcription.ts";
import { type DiarizeJob, type DiarizeOutcome, EngineError } from "../engine/protocol.ts";
import { speechByChannel } from "../pipeline/speakers.ts";
import type { ChunkRecord } from "./checkpoint.ts";
import type { RecognitionTools } from "./context.ts";
import { withRetries } from "./retry.ts";

/** Who speaks when, in each track, and the warnings about it. */
export type FoundSpeakers = Pick<DiarizeOutcome, "turns"> & {
  warnings: Warning[];
  /** Of the weights that distinguished the speakers; left out: the built-in method did. */
  speakerWeights?: SpeakerWeightHashes;
};

/** Distinguishes the speakers of a recording once, beside its recognition or after it. */
export type SpeakerRun = {
  /** Begins, unless it has begun. */
  begin(): void;
  /** Begins and waits. @throws the signal's reason when it is aborted; EngineError */
  finish(): Promise<FoundSpeakers>;
  /** Ends the work, and waits until it no longer uses the recording's files. */
  stop(): Promise<void>;
};

export type SpeakerRunInput = {
  diarization: DiarizationRequest;
  tracks: readonly string[];
  chunks: readonly ChunkRecord[];
  /** Receives the share that is done, 0 to 1. */
  onProgress: (share: number) => void;
};

export function createSpeakerRun(
  tools: RecognitionTools,
  { diarization, tracks, chunks, onProgress }: SpeakerRunInput,
  signal: AbortSignal,
): SpeakerRun {
  const stopping = new AbortController();
  const either = AbortSignal.any([signal, stopping.signal]);
  let running: Promise<FoundSpeakers> | undefined;

  async function work(): Promise<FoundSpeakers> {
    const job = { tracks: speechByChannel(tracks, chunks), ...diarization };
    const found = await distinguish(tools, job, onProgress, either);
    onProgress(1);
    return found;
  }

  function begin(): Promise<FoundSpeakers> {
    running ??= work();
    // Without a handler, a failure before `finish` would end the program.
    running.catch(() => {});
    return running;
  }

  return {
    begin: () => void begin(),
    finish: begin,
    async stop() {
      stopping.abort(new EngineError("aborted", "the speakers are not needed any more"));
      await running?.catch(() => {});
    },
  };
}

/**
 * Distinguishes speakers. Weights that cannot be used do not end a transcription: the built-in method takes their place,
 * and the number of speakers counts as uncertain.
 */
async function distinguish(
  tools: RecognitionTools,
  job: DiarizeJob,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<FoundSpeakers> {
  // An admin may change the weights while the recording is recognized. All attempts of this one use the same.
  const weights = tools.speakerWeights();
  if (weights) {
    try {
      const withWeights = { ...job, weights };
      return foundIn(
        await withRetries(tools, signal, () => tools.engine.diarize(withWeights, signal, onProgress)),
      );
    } catch (error) {
      if (signal.aborted || !(error instanceof EngineError) || error.kind === "interrupted") throw error;
      const failure = { kind: error.kind, reason: error.message };
      tools.log.warn(failure, "the speaker weights cannot be used; the built-in method takes their place");
    }
  }
  const found = foundIn(await withRetries(tools, signal, () => tools.engine.diarize(job, signal)));
  return weights ? { ...found, warnings: ["speaker_count_uncertain"] } : found;
}

function foundIn({ turns, isCountUncertain, weightHashes }: DiarizeOutcome): FoundSpeakers {
  return {
    turns,
    warnings: isCountUncertain ? ["speaker_count_uncertain"] : [],
    ...(weightHashes ? { speakerWeights: weightHashes } : {}),
  };
}
