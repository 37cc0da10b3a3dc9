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
export const COMING_SOON = ["language.auto"] as const satisfies readonly Capability[];

/**
 * Capabilities that are announced, and refused until an admin switches them on, by the setting of `[capabilities]` that
 * does so (docs/decisions/extensions.md).
 */
export const SWITCHED_CAPABILITIES = {
  "timestamps.word": "word_timestamps",
} as const satisfies Partial<Record<Capability, string>>;
export type SwitchedCapability = keyof typeof SWITCHED_CAPABILITIES;
