import type { Config } from "../config/schema.ts";
import type { InstalledModel, SpeakerWeights } from "../domain/model.ts";
import type { Engine } from "../engine/engine.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { RecognitionTools } from "../recognition/context.ts";
import type { DecoderLanes } from "../services/decoder-lanes.ts";
import type { TranscriptionService } from "../services/transcriptions.ts";
import type { Database } from "../store/database.ts";
import type { Slots } from "./slots.ts";
import type { Throughput } from "./throughput.ts";

/** What running a transcription needs. */
export type RunContext = {
  database: Database;
  clock: Clock;
  config: Config;
  log: Log;
  engine: Engine;
  decoders: DecoderLanes;
  slots: Slots;
  throughput: Throughput;
  transcriptions: TranscriptionService;
  /** The weights and settings of a model; undefined when it has been removed. */
  findModel: (id: string) => InstalledModel | undefined;
  /** The family of a model, by its name. */
  familyOf: RecognitionTools["familyOf"];
  /** Weights for telling speakers apart; undefined: the built-in method. */
  speakerWeights: () => SpeakerWeights | undefined;
  audioPath: (uploadId: string) => string;
  /** Folder of a transcription's decoded audio. */
  workingDir: (transcriptionId: string) => string;
  weightOf: (organizationId: string) => number;
};
