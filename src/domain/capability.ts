/** What a model can be asked for, by dotted name (docs/decisions.md section 6). */
export const CAPABILITIES = [
  "mode.native",
  "mode.codemix",
  "mode.verbatim",
  "timestamps.segment",
  "timestamps.word",
  "language.auto",
  "diarization",
  "channel_mode.separate",
] as const;
export type Capability = (typeof CAPABILITIES)[number];
export type CapabilityStatus = "available" | "coming_soon";

/** Announced, and refused until they exist (docs/interface.md section 7.1). */
export const COMING_SOON = ["timestamps.word", "language.auto"] as const satisfies readonly Capability[];
