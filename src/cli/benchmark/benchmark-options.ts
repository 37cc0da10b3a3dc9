import type { Mode, Timestamps } from "../../domain/transcription.ts";

/** Options of `shruti benchmark`, as its command line gives them. */
export type BenchmarkOptions = {
  language: string;
  mode: Mode;
  model?: string;
  models?: string[];
  timestamps: Timestamps;
  channelMode: "mix" | "separate";
  name?: string;
  report?: string;
  json?: true;
};
