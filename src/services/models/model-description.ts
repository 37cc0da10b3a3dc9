import type { Config } from "../../config/schema.ts";
import {
  type AnnouncedCapability,
  CAPABILITIES,
  type CapabilityStatus,
  COMING_SOON,
  EXTENSION_CAPABILITIES,
  type ExtensionCapability,
  SWITCHED_CAPABILITIES,
  type SwitchedCapability,
} from "../../domain/capability.ts";
import type { InstalledModel } from "../../domain/model.ts";
import { MODES, type Mode } from "../../domain/transcription.ts";
import type { ModelFamily } from "../../families/contract.ts";

/** What a model can do, and its limits: the data of a `GET /v1/models` entry (docs/decisions/models.md). */
export type ModelDescription = {
  /** Modes that at least one of its languages has, in the order of `MODES`. */
  modes: Mode[];
  capabilities: Capabilities;
  diarization: { method: DiarizationMethod };
  limits: {
    synchronous: { maxBytes: number; maxDurationSeconds: number; timeoutSeconds: number };
    asynchronous: { maxBytes: number; maxDurationSeconds: number; maxChannels: number };
  };
};

/** The status of each capability. An extension is absent where the config does not switch it on. */
type Capabilities = Record<AnnouncedCapability, CapabilityStatus> &
  Partial<Record<ExtensionCapability, CapabilityStatus>>;

/** How speakers are distinguished: with nets, or by the built-in acoustic method. */
export type DiarizationMethod = "acoustic" | "neural";

/** Reports whether the config lets requests ask for a capability that is refused by default. */
export function isSwitchedOn(config: Pick<Config, "capabilities">, name: SwitchedCapability): boolean {
  return config.capabilities[SWITCHED_CAPABILITIES[name]];
}

/** What decides, besides the model, what it can do here. */
type Surroundings = {
  config: Pick<Config, "limits" | "capabilities">;
  /** The family of the model. */
  family: Pick<ModelFamily, "canTimeWords" | "canTranslate">;
  /** The method that distinguishes speakers now. */
  method: DiarizationMethod;
};

/** Describes a model under the config's limits, with the capabilities that the config switches on. */
export function describeModel(model: InstalledModel, surroundings: Surroundings): ModelDescription {
  const { limits } = surroundings.config;
  const modes = MODES.filter((mode) => model.languages.some((language) => language.modes.includes(mode)));
  return {
    modes,
    capabilities: capabilitiesOf(model, modes, surroundings),
    diarization: { method: surroundings.method },
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

function capabilitiesOf(
  model: InstalledModel,
  modes: readonly Mode[],
  { config, family }: Surroundings,
): Capabilities {
  const comingSoon = new Set<keyof Capabilities>(COMING_SOON);
  for (const mode of MODES) if (!modes.includes(mode)) comingSoon.add(`mode.${mode}`);
  if (config.limits.max_channels < 2) comingSoon.add("channel_mode.separate");
  if (!isSwitchedOn(config, "timestamps.word") || !family.canTimeWords(model)) {
    comingSoon.add("timestamps.word");
  }
  const extensions = EXTENSION_CAPABILITIES.filter((name) => isSwitchedOn(config, name));
  if (extensions.includes("task.translate") && !family.canTranslate?.(model))
    comingSoon.add("task.translate");
  const status = (name: keyof Capabilities): CapabilityStatus =>
    comingSoon.has(name) ? "coming_soon" : "available";
  return Object.fromEntries(
    [...CAPABILITIES, ...extensions].map((name) => [name, status(name)]),
  ) as Capabilities;
}
