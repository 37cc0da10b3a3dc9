import type { Config } from "../../config/schema.ts";
import {
  CAPABILITIES,
  type Capability,
  type CapabilityStatus,
  COMING_SOON,
} from "../../domain/capability.ts";
import type { InstalledModel } from "../../domain/model.ts";
import { MODES, type Mode } from "../../domain/transcription.ts";

/** What a model can do, and its limits: the data of a `GET /v1/models` entry (docs/decisions/models.md). */
export type ModelDescription = {
  /** Modes that at least one of its languages has, in the order of `MODES`. */
  modes: Mode[];
  capabilities: Record<Capability, CapabilityStatus>;
  diarization: { method: DiarizationMethod };
  limits: {
    synchronous: { maxBytes: number; maxDurationSeconds: number; timeoutSeconds: number };
    asynchronous: { maxBytes: number; maxDurationSeconds: number; maxChannels: number };
  };
};

/** How speakers are distinguished: with nets, or by the built-in acoustic method. */
export type DiarizationMethod = "acoustic" | "neural";

/** Describes a model under the config's limits. */
export function describeModel(
  model: InstalledModel,
  { limits }: Config,
  method: DiarizationMethod,
): ModelDescription {
  const modes = MODES.filter((mode) => model.languages.some((language) => language.modes.includes(mode)));
  return {
    modes,
    capabilities: capabilitiesWith(modes, limits.max_channels),
    diarization: { method },
    limits: {
      synchronous: {
        maxBytes: limits.synchronous_max_bytes,
        maxDurationSeconds: limits.synchronous_max_duration_seconds,
        timeoutSeconds: limits.synchronous_timeout_seconds,
      },
      asynchronous: {
        maxBytes: limits.max_upload_bytes,
        maxDurationSeconds: limits.max_duration_seconds,
        maxChannels: limits.max_channels,
      },
    },
  };
}

function capabilitiesWith(modes: readonly Mode[], maxChannels: number): ModelDescription["capabilities"] {
  const comingSoon = new Set<Capability>(COMING_SOON);
  for (const mode of MODES) if (!modes.includes(mode)) comingSoon.add(`mode.${mode}`);
  if (maxChannels < 2) comingSoon.add("channel_mode.separate");
  const status = (name: Capability): CapabilityStatus => (comingSoon.has(name) ? "coming_soon" : "available");
  return Object.fromEntries(
    CAPABILITIES.map((name) => [name, status(name)]),
  ) as ModelDescription["capabilities"];
}
