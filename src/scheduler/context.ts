import type { DecoderPlaces } from "../admission/decoder-places.ts";
import type { Slots } from "../admission/slots.ts";
import type { Config } from "../config/schema.ts";
import type { InstalledModel, PunctuationModel, SpeakerWeights } from "../domain/model.ts";
import type { Engine } from "../engine/engine.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { RecognitionTools } from "../recognition/context.ts";
import type { TranscriptionService } from "../services/transcriptions/transcriptions.ts";
import type { Database } from "../store/database.ts";
import type { GroupCommit } from "../store/group-commit.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";
import type { Throughput } from "./throughput.ts";

/** The parts of the server that the scheduler uses and does not create. */
export type ServerParts = {
  database: Database;
  clock: Clock;
  config: Config;
  log: Log;
  engine: Engine;
  decoders: DecoderPlaces;
  /** The same kind of places for finding speech. */
  speechPlaces: DecoderPlaces;
  /** The same kind of places for recordings that other machines prepare. */
  elsewherePlaces: DecoderPlaces;
  transcriptions: TranscriptionService;
  /** Returns the weights and settings of a model, or undefined when the model has been removed. */
  findModel: (id: string) => InstalledModel | undefined;
  /** Returns the family of a model by the family's name. */
  familyOf: RecognitionTools["familyOf"];
  /** Returns the pairs of nets that distinguish speakers, in the order in which they are tried; none: the built-in method. */
  speakerWeights: () => readonly SpeakerWeights[];
  /** Returns the model that adds punctuation to texts without any; undefined: none is installed or wanted. */
  punctuation: () => PunctuationModel | undefined;
  /** Returns the path of an upload's recording. */
  audioPath: (uploadId: string) => string;
  /** The commit that this executable was built from; null: not known. */
  commit: string | null;
};

/** What one run of a transcription needs: the server's parts, and those that the scheduler shares between runs. */
export type RunContext = ServerParts & {
  slots: Slots;
  throughput: Throughput;
  /** Commits the outcomes of chunks that end at the same time together. */
  commits: GroupCommit;
  /** Returns the folder of a transcription's decoded audio. */
  workingDir: (transcriptionId: string) => string;
  /** Returns an organization's share of turns. */
  weightOf: (organizationId: string) => number;
  /** Called after each chunk that has ended, with the transcription's identifier. */
  onChunkEnded: (transcriptionId: string) => void;
};

/** Reports whether a client waits for this transcription with an open connection. */
export function isSynchronous({ submission }: Pick<TranscriptionRow, "submission">): boolean {
  return submission === "synchronous";
}
