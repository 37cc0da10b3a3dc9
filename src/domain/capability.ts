/** Dotted names of what a request can ask of a model (docs/decisions/models.md). */
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

/** Capabilities that are announced, and refused until they exist (docs/interface.md section 7.1). */
export const COMING_SOON = ["timestamps.word", "language.auto"] as const satisfies readonly Capability[];
