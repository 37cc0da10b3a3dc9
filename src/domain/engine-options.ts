import type { TrackChoice } from "./reading.ts";

/** Where a model runs; `auto` takes a GPU when its backend is installed. */
export const DEVICES = ["auto", "cpu", "cuda", "vulkan", "metal"] as const;
export type DevicePreference = (typeof DEVICES)[number];

/** Whether kernels that round more than whisper.cpp's own code may be used: `exact` uses none of them. */
export const PRECISIONS = ["fast", "exact"] as const;
export type Precision = (typeof PRECISIONS)[number];

/** Where several chunks may make their decoding steps together; `cpu`: not on a GPU. */
export const STEP_SHARING_CHOICES = ["auto", "cpu", "never"] as const;
export type StepSharingChoice = (typeof STEP_SHARING_CHOICES)[number];

/**
 * The settings of `[engine]` that the engine and its worker processes read, by their names in the config file. The section
 * itself is passed on, whole, from the config to the worker process, so that a setting is spelled only here, in the schema
 * and where it is used. `config/schema.ts` says what each of them means.
 */
export type EngineOptions = {
  workers: number | "auto";
  threads_per_worker: number | "auto";
  device: DevicePreference;
  precision: Precision;
  shared_steps: StepSharingChoice;
  background_niceness: number;
  speech_workers: number | "auto";
  model_idle_seconds: number;
  tracks: TrackChoice;
  decoder: string;
  /** Left out: the program distinguishes no speakers. */
  diarization?: "auto" | "acoustic";
  /** Left out: the program adds no punctuation. */
  punctuation?: "auto" | "off";
};
