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
export type AnnouncedCapability = (typeof CAPABILITIES)[number];

/** Capabilities of which models say nothing until an admin switches them on (docs/decisions/extensions.md). */
export const EXTENSION_CAPABILITIES = ["task.translate"] as const;
export type ExtensionCapability = (typeof EXTENSION_CAPABILITIES)[number];
export type Capability = AnnouncedCapability | ExtensionCapability;
export type CapabilityStatus = "available" | "coming_soon";

/** Capabilities that are announced, and refused until they exist (docs/interface.md section 7.1). */
export const COMING_SOON = ["language.auto"] as const satisfies readonly Capability[];

/**
 * Capabilities that are refused until an admin switches them on, by the setting of `[capabilities]` that
 * does so (docs/decisions/extensions.md).
 */
export const SWITCHED_CAPABILITIES = {
  "timestamps.word": "word_timestamps",
  "task.translate": "translation",
} as const satisfies Partial<Record<Capability, string>>;
export type SwitchedCapability = keyof typeof SWITCHED_CAPABILITIES;
