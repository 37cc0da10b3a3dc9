/** Declares the part of the package that the benchmark uses. The package has no declarations. */
declare module "sherpa-onnx-node" {
  export class Vad {
    constructor(config: object, bufferSeconds: number);
    reset(): void;
    acceptWaveform(samples: Float32Array): void;
    isEmpty(): boolean;
    pop(): void;
  }
}
