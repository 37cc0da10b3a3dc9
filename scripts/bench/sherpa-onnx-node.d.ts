/** The part of the package, which has no declarations of its own, that the benchmark uses. */
declare module "sherpa-onnx-node" {
  export class Vad {
    constructor(config: object, bufferSeconds: number);
    reset(): void;
    acceptWaveform(samples: Float32Array): void;
    isEmpty(): boolean;
    pop(): void;
  }
}
