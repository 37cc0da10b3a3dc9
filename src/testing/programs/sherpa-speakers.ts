import { readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Describes voices and distinguishes speakers with sherpa-onnx's published addon, as a reference. It runs in a process of
 * its own, which sherpa-onnx may end.
 *
 * Argument: a `ReferenceRequest` as JSON. Prints a `ReferenceResult` as JSON.
 */
export type ReferenceRequest = {
  embedding: string;
  /** With it speakers are distinguished; else each file is one voice. */
  segmentation?: string;
  /** −1: the number is found. */
  clusters?: number;
  /** Files of decoded audio: 16 kHz, mono, 16 bits, no header. */
  pcmPaths: string[];
};
export type ReferenceResult = {
  vectors?: number[][];
  turns?: { start: number; end: number; speaker: number }[][];
  /** Time of the processor, without loading. */
  cpuMs: number;
};

type Handle = { readonly __handle: unique symbol };
type Speakers = {
  createSpeakerEmbeddingExtractor(config: object): Handle;
  speakerEmbeddingExtractorCreateStream(extractor: Handle): Handle;
  acceptWaveformOnline(stream: Handle, audio: { samples: Float32Array; sampleRate: number }): void;
  inputFinished(stream: Handle): void;
  speakerEmbeddingExtractorComputeEmbedding(
    extractor: Handle,
    stream: Handle,
    external: boolean,
  ): Float32Array;
  createOfflineSpeakerDiarization(config: object): Handle;
  offlineSpeakerDiarizationProcess(
    diarization: Handle,
    samples: Float32Array,
  ): { start: number; end: number; speaker: number }[];
};

const request = JSON.parse(process.argv[2] ?? "") as ReferenceRequest;
const published = join(
  import.meta.dir,
  "../../../node_modules",
  `sherpa-onnx-${process.platform}-${process.arch}`,
);
const module = { exports: {} };
process.dlopen(module, join(published, "sherpa-onnx.node"));
const sherpa = module.exports as Speakers;

const soundOf = (path: string) => {
  const pcm = new Int16Array(new Uint8Array(readFileSync(path)).buffer);
  return Float32Array.from(pcm, (sample) => sample / 32_768);
};

function vectorsOf({ embedding, pcmPaths }: ReferenceRequest): () => ReferenceResult {
  const extractor = sherpa.createSpeakerEmbeddingExtractor({
    model: embedding,
    numThreads: 1,
    debug: 0,
    provider: "cpu",
  });
  const vectorOf = (path: string) => {
    const stream = sherpa.speakerEmbeddingExtractorCreateStream(extractor);
    sherpa.acceptWaveformOnline(stream, { samples: soundOf(path), sampleRate: 16_000 });
    sherpa.inputFinished(stream);
    return [...sherpa.speakerEmbeddingExtractorComputeEmbedding(extractor, stream, false)];
  };
  return () => ({ vectors: pcmPaths.map(vectorOf), cpuMs: 0 });
}

function turnsOf({
  segmentation,
  embedding,
  clusters = -1,
  pcmPaths,
}: ReferenceRequest): () => ReferenceResult {
  const diarization = sherpa.createOfflineSpeakerDiarization({
    segmentation: { pyannote: { model: segmentation }, numThreads: 1, debug: 0, provider: "cpu" },
    embedding: { model: embedding, numThreads: 1, debug: 0, provider: "cpu" },
    clustering: { numClusters: clusters, threshold: 0.5 },
    minDurationOn: 0.3,
    minDurationOff: 0.5,
  });
  const turns = (path: string) => sherpa.offlineSpeakerDiarizationProcess(diarization, soundOf(path));
  return () => ({ turns: pcmPaths.map(turns), cpuMs: 0 });
}

const work = request.segmentation === undefined ? vectorsOf(request) : turnsOf(request);
const before = process.cpuUsage();
const result = work();
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ ...result, cpuMs: (user + system) / 1000 }));
