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
  /** Hashes of the weights that distinguished the speakers; left out where the built-in method did. */
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
  /** Length of each track. */
  durationMs: number;
  /** Receives the share that is done, 0 to 1. */
  onProgress: (share: number) => void;
};

export function createSpeakerRun(
  tools: RecognitionTools,
  { diarization, tracks, chunks, durationMs, onProgress }: SpeakerRunInput,
  signal: AbortSignal,
): SpeakerRun {
  const stopping = new AbortController();
  const either = AbortSignal.any([signal, stopping.signal]);
  let running: Promise<FoundSpeakers> | undefined;

  async function work(): Promise<FoundSpeakers> {
    const job = { tracks: speechByChannel(tracks, chunks), ...diarization };
    const beganAt = tools.clock.now();
    const found = await distinguish(tools, job, onProgress, either);
    tools.onSpeakers?.(durationMs * tracks.length, tools.clock.now() - beganAt);
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
 * Distinguishes speakers. Nets that cannot be used do not end a transcription: the next pair of nets takes their place, at
 * last the built-in method, and the number of speakers counts as uncertain.
 */
async function distinguish(
  tools: RecognitionTools,
  job: DiarizeJob,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<FoundSpeakers> {
  // An admin may change the weights while the recording is recognized. All attempts of this one use the same.
  const pairs = tools.speakerWeights();
  const attempt = (each: DiarizeJob) =>
    withRetries(tools, signal, () => tools.engine.diarize(each, signal, onProgress));
  for (const [index, weights] of pairs.entries()) {
    try {
      const found = foundIn(await attempt({ ...job, weights }));
      return index === 0 ? found : uncertain(found);
    } catch (error) {
      if (signal.aborted || !(error instanceof EngineError) || error.kind === "interrupted") throw error;
      const failure = { kind: error.kind, reason: error.message, segmentation: weights.segmentationPath };
      tools.log.warn(failure, "these nets cannot distinguish speakers; others or the built-in method do");
    }
  }
  const found = foundIn(await attempt(job));
  return pairs.length === 0 ? found : uncertain(found);
}

function uncertain(found: FoundSpeakers): FoundSpeakers {
  return { ...found, warnings: ["speaker_count_uncertain"] };
}

function foundIn({ turns, isCountUncertain, weightHashes }: DiarizeOutcome): FoundSpeakers {
  return {
    turns,
    warnings: isCountUncertain ? ["speaker_count_uncertain"] : [],
    ...(weightHashes ? { speakerWeights: weightHashes } : {}),
  };
}
