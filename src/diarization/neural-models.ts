import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { SpeakerWeights } from "../domain/model.ts";
import { readOnnxFile } from "../lib/onnx-file.ts";
import type { NativeFiles } from "../native/native-files.ts";
import {
  finishRun,
  loadOnnx,
  type OnnxAddon,
  type OnnxSession,
  SOUND_NORMALIZATION,
  SOUND_WINDOW,
  type SpeakerSound,
} from "../native/onnx/onnx-addon.ts";

/** What the segmentation model says of itself. */
export type SegmentationInfo = {
  /** Speakers that it can distinguish within a window. */
  speakers: number;
  /** What each of its classes means: the speakers who talk, as bits. */
  classes: number[];
  /** Samples that it hears at once. */
  windowSamples: number;
  /** Samples between two frames, and of the sound that a frame depends on. */
  frameSamples: number;
  fieldSamples: number;
};

/** How the speaker model hears a voice, which of its outputs describes it, and how many numbers a description has. */
export type EmbeddingInfo = { sound: SpeakerSound; output: 0 | 1; numbers: number };

export type SpeakerModels = {
  segmentation: SegmentationInfo;
  /**
   * Finds who speaks when within a window.
   *
   * @param window `windowSamples` samples within −1 and 1
   * @returns for each frame its speakers as bits
   * @throws the signal's reason when it is aborted; Error when the model does not fit
   */
  segment(window: Float32Array, signal: AbortSignal): Promise<Uint8Array>;
  /**
   * Describes a voice.
   *
   * @returns a vector; undefined for sound without a frame, and when the model gives no numbers
   * @throws as `segment` does
   */
  describe(sound: Float32Array, signal: AbortSignal): Promise<Float32Array | undefined>;
};

const THREADS = 1;
/** The share by which the number of frames may differ from what the metadata says. */
const MOST_FRAMES_OFF = 0.02;
const MOST_NUMBERS = 10_000;
/** Each speaker of a window is a bit of a byte. */
const MOST_SPEAKERS = 8;
/** Far beyond any model, so that a wrong number cannot take all memory. */
const MOST_WINDOW_SAMPLES = 60 * SAMPLE_RATE_HZ;
/** Bands of models that do not name their number. */
const DEFAULT_BINS = 80;
const KALDI_WINDOW_MS = 25;
const KALDI_SHIFT_MS = 10;
const MOST_BINS = 128;
/** What the addon's Fourier transform takes. */
const LEAST_FRAME_SAMPLES = 257;
const MOST_FRAME_SAMPLES = 512;

/**
 * Loads both models. Some files end the process, so this belongs in a worker process of its own.
 *
 * @throws Error with the reason why one of them cannot be used
 */
export async function openSpeakerModels(
  nativeFiles: Pick<NativeFiles, "dir" | "onnx" | "onnxruntime">,
  { segmentationPath, embeddingPath }: SpeakerWeights,
): Promise<SpeakerModels> {
  const segmentation = segmentationInfo(readOnnxFile(segmentationPath).metadata);
  const { sound, output, numbers: described } = embeddingInfo(readOnnxFile(embeddingPath).metadata);
  const { addon } = loadOnnx(nativeFiles);
  const segmenter = await addon.open(segmentationPath, THREADS, false);
  const describer = await addon.open(embeddingPath, THREADS, false);
  const models: SpeakerModels = {
    segmentation,
    segment: (window, signal) => segment(addon, segmenter, segmentation, window, signal),
    async describe(samples, signal) {
      if (framesOf(sound, samples.length) < 1) return undefined;
      const run = addon.runSpeakers(describer, samples, output, sound);
      const { numbers } = await finishRun(addon, run, signal);
      if (numbers.length !== described) {
        throw new Error(
          `the speaker model describes a voice by ${numbers.length} numbers, and its output_dim says ${described}`,
        );
      }
      return numbers.every(Number.isFinite) ? numbers : undefined;
    },
  };
  // What the metadata says of the nets is compared with what they do before the first recording.
  const { signal } = new AbortController();
  await models.segment(new Float32Array(segmentation.windowSamples), signal);
  await models.describe(new Float32Array(SAMPLE_RATE_HZ), signal);
  return models;
}

async function segment(
  addon: OnnxAddon,
  session: OnnxSession,
  { classes, windowSamples, frameSamples, fieldSamples }: SegmentationInfo,
  window: Float32Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const run = addon.runSpeakers(session, window, 0, null);
  const { numbers, rows, columns } = await finishRun(addon, run, signal);
  if (columns !== classes.length) {
    throw new Error(`the segmentation model has ${columns} classes, and its metadata says ${classes.length}`);
  }
  // Frames at the edges depend on how a net fills them up.
  const expected = (windowSamples - fieldSamples) / frameSamples + 1;
  if (Math.abs(rows - expected) > MOST_FRAMES_OFF * expected + 2) {
    throw new Error(
      `the segmentation model has ${rows} frames in a window, and its receptive_field_shift of ${frameSamples} makes ${Math.floor(expected)}`,
    );
  }
  return Uint8Array.from({ length: rows }, (_, row) => {
    let best = 0;
    for (let column = 1; column < columns; column++) {
      if ((numbers[row * columns + column] ?? 0) > (numbers[row * columns + best] ?? 0)) best = column;
    }
    return classes[best] ?? 0;
  });
}

/**
 * Reads the metadata that pyannote's models have in sherpa-onnx's form.
 *
 * @throws Error when it describes a model that cannot be used
 */
export function segmentationInfo(metadata: ReadonlyMap<string, string>): SegmentationInfo {
  const number = (key: string, least: number, most: number) => numberOf(metadata, key, least, most);
  requireRate(metadata);
  const speakers = number("num_speakers", 1, MOST_SPEAKERS);
  const classes = powerset(speakers, number("powerset_max_classes", 1, 2));
  const count = number("num_classes", 1, 1_000);
  if (count !== classes.length) {
    throw new Error(
      `the segmentation model has num_classes ${count}, and its speakers make ${classes.length}`,
    );
  }
  const windowSamples = number("window_size", 1, MOST_WINDOW_SAMPLES);
  return {
    speakers,
    classes,
    windowSamples,
    frameSamples: number("receptive_field_shift", 1, windowSamples),
    fieldSamples: number("receptive_field_size", 1, windowSamples),
  };
}

/** Lists the sets of speakers who talk at once: none, each one, each pair. */
function powerset(speakers: number, mostAtOnce: number): number[] {
  const single = Array.from({ length: speakers }, (_, speaker) => 1 << speaker);
  const pairs = single.flatMap((one, index) => single.slice(index + 1).map((other) => one | other));
  return [0, ...single, ...(mostAtOnce > 1 ? pairs : [])];
}

/**
 * Reads the metadata that speaker models have in sherpa-onnx's form. Those of WeSpeaker and 3D-Speaker hear features as
 * Kaldi computes them, those of NeMo as librosa does.
 *
 * @throws Error when it describes a model that cannot be used
 */
export function embeddingInfo(metadata: ReadonlyMap<string, string>): EmbeddingInfo {
  requireRate(metadata);
  const framework = metadata.get("framework") ?? "";
  if (framework === "nemo") return nemoInfo(metadata);
  if (framework !== "wespeaker" && framework !== "3d-speaker") {
    throw new Error(
      `the speaker model is of the framework "${framework}", not wespeaker, 3d-speaker or nemo`,
    );
  }
  const sound: SpeakerSound = {
    nemo: 0,
    scaled: numberOf(metadata, "normalize_samples", 0, 1) === 1 ? 0 : 1,
    bins: DEFAULT_BINS,
    window: samplesOfMs(KALDI_WINDOW_MS),
    shift: samplesOfMs(KALDI_SHIFT_MS),
    shape: SOUND_WINDOW.povey,
    normalization: normalizationOf(metadata, "global-mean", SOUND_NORMALIZATION.mean),
  };
  return { sound, output: 0, numbers: numbersOf(metadata) };
}

function nemoInfo(metadata: ReadonlyMap<string, string>): EmbeddingInfo {
  const shape = metadata.get("window_type") || "povey";
  if (!isWindow(shape)) throw new Error(`the speaker model has the unknown window_type "${shape}"`);
  const window = samplesOfMs(numberOf(metadata, "window_size_ms", 1, 1_000));
  const shift = samplesOfMs(numberOf(metadata, "window_stride_ms", 1, 1_000));
  if (window < LEAST_FRAME_SAMPLES || window > MOST_FRAME_SAMPLES || shift > MOST_FRAME_SAMPLES) {
    throw new Error("the speaker model's frames are longer or shorter than those that Shruti can compute");
  }
  const sound: SpeakerSound = {
    nemo: 1,
    scaled: 0,
    bins: numberOf(metadata, "feat_dim", 1, MOST_BINS),
    window,
    shift,
    shape: SOUND_WINDOW[shape],
    normalization: normalizationOf(metadata, "per_feature", SOUND_NORMALIZATION.deviation),
  };
  // Its first output names the voices that it was trained with.
  return { sound, output: 1, numbers: numbersOf(metadata) };
}

function numbersOf(metadata: ReadonlyMap<string, string>): number {
  return numberOf(metadata, "output_dim", 1, MOST_NUMBERS);
}

function isWindow(name: string): name is keyof typeof SOUND_WINDOW {
  return Object.hasOwn(SOUND_WINDOW, name);
}

function normalizationOf(metadata: ReadonlyMap<string, string>, name: string, value: number): number {
  const wanted = metadata.get("feature_normalize_type") ?? "";
  if (wanted !== "" && wanted !== name) {
    throw new Error(`the speaker model has the unknown feature_normalize_type "${wanted}"`);
  }
  return wanted === "" ? SOUND_NORMALIZATION.none : value;
}

function requireRate(metadata: ReadonlyMap<string, string>): void {
  numberOf(metadata, "sample_rate", SAMPLE_RATE_HZ, SAMPLE_RATE_HZ);
}

function numberOf(metadata: ReadonlyMap<string, string>, key: string, least: number, most: number): number {
  const text = metadata.get(key) ?? "";
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < least || number > most) {
    const wanted = least === most ? `${least}` : `a number from ${least} to ${most}`;
    throw new Error(`the model's metadata has ${key} "${text}", and it has to be ${wanted}`);
  }
  return number;
}

function samplesOfMs(ms: number): number {
  return (ms * SAMPLE_RATE_HZ) / 1000;
}

function framesOf({ nemo, window, shift }: SpeakerSound, samples: number): number {
  if (nemo === 0) return Math.floor((samples + shift / 2) / shift);
  return samples < window ? 0 : 1 + Math.floor((samples - window) / shift);
}
