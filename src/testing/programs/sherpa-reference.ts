import { readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Recognizes recordings with the CTC recognizer of sherpa-onnx's published addon, and prints for each its tokens and their times in seconds,
 * as JSON. It runs in a process of its own, which sherpa-onnx may end.
 *
 * Arguments: the field of sherpa-onnx's config for the kind of model, its folder, then WAV files (16 kHz, mono, 16 bits, a head of 44 bytes).
 */

type Handle = { readonly __handle: unique symbol };
type Recognizers = {
  createOfflineRecognizer(config: object): Handle;
  createOfflineStream(recognizer: Handle): Handle;
  acceptWaveformOffline(stream: Handle, audio: { samples: Float32Array; sampleRate: number }): void;
  decodeOfflineStream(recognizer: Handle, stream: Handle): void;
  getOfflineStreamResultAsJson(stream: Handle): string;
};

const HEAD_BYTES = 44;
const [kind = "", folder, ...recordings] = process.argv.slice(2);
const published = join(
  import.meta.dir,
  "../../../node_modules",
  `sherpa-onnx-${process.platform}-${process.arch}`,
);
const module = { exports: {} };
process.dlopen(module, join(published, "sherpa-onnx.node"));
const sherpa = module.exports as Recognizers;
const recognizer = sherpa.createOfflineRecognizer({
  featConfig: { sampleRate: 16_000, featureDim: 80 },
  modelConfig: {
    [kind]: { model: `${folder}/model.onnx` },
    tokens: `${folder}/tokens.txt`,
    numThreads: 1,
    provider: "cpu",
    debug: 0,
  },
});
const results = recordings.map((path) => {
  const bytes = readFileSync(path).subarray(HEAD_BYTES);
  const pcm = new Int16Array(new Uint8Array(bytes).buffer);
  const stream = sherpa.createOfflineStream(recognizer);
  sherpa.acceptWaveformOffline(stream, {
    samples: Float32Array.from(pcm, (sample) => sample / 32_768),
    sampleRate: 16_000,
  });
  sherpa.decodeOfflineStream(recognizer, stream);
  const { tokens, timestamps } = JSON.parse(sherpa.getOfflineStreamResultAsJson(stream)) as {
    tokens: string[];
    timestamps: number[];
  };
  return { tokens, timestamps };
});
console.log(JSON.stringify(results));
