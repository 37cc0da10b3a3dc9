import type { Mode } from "../../domain/transcription.ts";

/** Options of `shruti benchmark`, as its command line gives them. */
export type BenchmarkOptions = {
  language: string;
  mode: Mode;
  model?: string;
  models?: string[];
  channelMode: "mix" | "separate";
  name?: string;
  report?: string;
  json?: true;
};
