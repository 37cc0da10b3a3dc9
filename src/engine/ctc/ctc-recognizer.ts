import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import { fileOf, type ModelFiles } from "../../domain/model.ts";
import { checkIndicFiles } from "../../families/ctc/indic-files.ts";
import { CTC_FAMILIES, type CtcModelInfo, checkCtcFiles } from "../../families/ctc/model-files.ts";
import { ngramsOf } from "../../families/ctc/ngram-files.ts";
import type { CtcSettings } from "../../families/ctc/settings.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import {
  CTC_INPUT,
  CTC_LEAST_SAMPLES,
  fasterFile,
  finishRun,
  loadOnnx,
  type OnnxAddon,
  type OnnxNgram,
  type OnnxSession,
} from "../../native/onnx/onnx-addon.ts";
import { requireProcessor } from "../devices.ts";
import { longEnough, quietNoise } from "../probe-sound.ts";
import type { Recognizer } from "../recognizer.ts";
import { segmentsOf, writtenTokens } from "./ctc-text.ts";

/** Time between two frames of features. */
const FEATURE_MS = 10;
const SAMPLE_MS = 1000 / SAMPLE_RATE_HZ;

/**
 * How long after the beginning of a word its first token is written, by family. Measured with the test model, whose frames
 * are 40 ms long, on words of 9 voices with known times (docs/engine.md section 6). Trained models of the
 * other families were not at hand, so there a word begins with its token.
 */
const WORD_DELAY_MS: Readonly<Record<string, number>> = { [CTC_FAMILIES.nemo]: 50 };

/**
 * Opens the recognizer of a family of CTC models on the carried ONNX runtime.
 *
 * @throws Error when its libraries do not load
 */
export function openCtcRecognizer(family: string, nativeFiles: NativeFiles): Recognizer {
  const { addon, version } = loadOnnx(nativeFiles);
  return {
    info: {
      libraryVersion: "",
      cpuVariant: `onnxruntime ${version}`,
      plainerVariants: [],
      devices: [],
      backendFailures: [],
    },
    async load(files, device) {
      requireProcessor(device);
      const net = await openNet(addon, family, files);
      // A changed network is as large as the file, and nothing needs it any more.
      Bun.gc(true);
      return {
        device: "cpu",
        recognize: async (samples, settings, { signal }) => ({
          segments: await recognize(addon, net, samples, settings as CtcSettings, signal),
        }),
      };
    },
  };
}

/** A loaded model, and what its files say. `factor`: frames of features, or samples, for one frame of output. */
type Net = {
  session: OnnxSession;
  head: OnnxSession | null;
  info: CtcModelInfo;
  factor: number;
  /** By language. */
  ngrams: ReadonlyMap<string, OnnxNgram>;
};

/** How much an n-gram model counts beside the sound, and what each word adds, so that texts do not become too short. */
const NGRAM_WEIGHT = 0.5;
const WORD_BONUS = 1.5;

/** @throws Error with the reason why the files cannot be used */
async function openNet(addon: OnnxAddon, family: string, files: ModelFiles): Promise<Net> {
  const path = fileOf(files, "model");
  const isIndic = family === CTC_FAMILIES.indic;
  const info = isIndic ? checkIndicFiles(files) : checkCtcFiles(path, fileOf(files, "tokens"));
  if (info.family !== family)
    throw new Error(`${path} is a model of the family ${info.family}, not ${family}`);
  const isMapped = info.external.length > 0;
  const head = isIndic ? await addon.open(fileOf(files, "head"), 1, isMapped) : null;
  const ngrams = openNgrams(addon, info, files);
  const open = async (source: string | Uint8Array) => {
    const session = await addon.open(source, 1, isMapped);
    return { session, head, info, ngrams, factor: await tryOut(addon, { session, head, info }) };
  };
  const faster = fasterFile(path);
  // Where a changed network does not run, the file as it is says why, or runs.
  return faster === path ? open(path) : open(faster).catch(() => open(path));
}

function openNgrams(addon: OnnxAddon, { tokens }: CtcModelInfo, files: ModelFiles): Net["ngrams"] {
  const found = ngramsOf(files);
  if (found.size === 0) return new Map();
  const texts = tokens.map((token) => new TextEncoder().encode(token));
  let end = 0;
  const ends = Int32Array.from(texts, ({ length }) => {
    end += length;
    return end;
  });
  const joined = new Uint8Array(Buffer.concat(texts));
  return new Map([...found].map(([language, path]) => [language, addon.openNgram(path, joined, ends)]));
}

/** Length of the noise on which a loaded model is tried. */
const TRIAL_SECONDS = 3;
/** The number of frames may differ by this much from what the subsampling factor says: padding is rounded. */
const FRAME_TOLERANCE = 2;

/** The factors of published models. They are powers of two, because each layer that subsamples halves the frames. */
const MAX_FACTOR = 64;

/**
 * Runs the net on noise and compares its frames with the subsampling factor of the metadata. With a wrong factor, times
 * would be wrong without any other sign. Where the files do not say the factor, the frames show it.
 *
 * @returns the factor
 * @throws Error when the net does not do what its metadata says, or makes no frames of a length that there is
 */
async function tryOut(
  addon: OnnxAddon,
  { session, head, info }: Omit<Net, "factor" | "ngrams">,
): Promise<number> {
  const { bins, factor: said } = info;
  const settings: CtcSettings = { language: "", features: "nemo" };
  const sound = quietNoise(TRIAL_SECONDS * SAMPLE_RATE_HZ);
  const allowed = allowedTokens(info, settings);
  const { ids, inputFrames } = await addon.run(
    session,
    sound,
    inputOf(info, settings),
    bins,
    allowed,
    head,
    null,
  ).promise;
  const found = inputFrames / Math.max(1, ids.length);
  const factor = said ?? 2 ** Math.round(Math.log2(found));
  const isPossible = said !== undefined || (factor >= 1 && factor <= MAX_FACTOR);
  if (!isPossible || Math.abs(ids.length - inputFrames / factor) > FRAME_TOLERANCE) {
    const reason =
      said === undefined
        ? "their ratio is not a power of two"
        : `its ${info.family === CTC_FAMILIES.nemo ? "subsampling_factor" : "factor"} is ${said} and should be about ${Math.round(found)}`;
    throw new Error(`the model makes ${ids.length} frames of ${inputFrames}: ${reason}`);
  }
  if (ids.includes(-1)) throw new Error("the model writes scores that are no numbers");
  return factor;
}

async function recognize(
  addon: OnnxAddon,
  { session, head, info, factor, ngrams }: Net,
  samples: Float32Array,
  settings: CtcSettings,
  signal: AbortSignal,
) {
  signal.throwIfAborted();
  const { tokens, blank, bins } = info;
  const { language } = settings;
  const words = settings.words ? { words: { delayMs: WORD_DELAY_MS[info.family] ?? 0 } } : {};
  const allowed = allowedTokens(info, settings);
  const sound = longEnough(samples, CTC_LEAST_SAMPLES);
  const ngram = ngrams.get(language);
  const beam = ngram ? { ngram, blank, weight: NGRAM_WEIGHT, bonus: WORD_BONUS } : null;
  const run = addon.run(session, sound, inputOf(info, settings), bins, allowed, head, beam);
  const best = await finishRun(addon, run, signal);
  const frameMs = factor * (info.family === CTC_FAMILIES.omnilingual ? SAMPLE_MS : FEATURE_MS);
  const audioMs = (samples.length * 1000) / SAMPLE_RATE_HZ;
  return segmentsOf(writtenTokens(best, blank), tokens, { frameMs, audioMs, language, ...words });
}

function inputOf({ family }: CtcModelInfo, { features }: CtcSettings): number {
  return family === CTC_FAMILIES.omnilingual ? CTC_INPUT.samples : CTC_INPUT[features];
}

/**
 * Returns 1 for each token that may be written, and for the blank.
 *
 * @throws RangeError when the model has no tokens of the span
 */
function allowedTokens(
  { tokens, blank }: CtcModelInfo,
  { tokenSpan, suppressTokens }: CtcSettings,
): Uint8Array {
  const { first = 0, last = tokens.length - 1 } = tokenSpan ?? {};
  if (last >= tokens.length || (tokenSpan && last >= blank && first <= blank)) {
    throw new RangeError(`the model has no token ${last}`);
  }
  const allowed = new Uint8Array(tokens.length);
  allowed.fill(1, first, last + 1);
  if (suppressTokens !== undefined) {
    const suppressed = new RegExp(`^(?:${suppressTokens})$`, "u");
    for (const [id, token] of tokens.entries()) if (suppressed.test(token)) allowed[id] = 0;
  }
  allowed[blank] = 1;
  return allowed;
}
