import { closeSync, openSync, readSync } from "node:fs";
import type { NativeFiles } from "./native-files.ts";
import type { ChunkAudio, DevicePreference, WorkerReply, WorkerRequest } from "./protocol.ts";
import { openVad, type Vad } from "./vad.ts";
import { type LoadedModel, openWhisper, type Whisper, type WhisperDevice } from "./whisper.ts";

/**
 * The entry of a worker process: serves `WorkerRequest`s of its parent until the parent is gone.
 * Native code runs only here, so that what it breaks is one process that can be replaced.
 */
export function runWorker(): void {
  const send = (reply: WorkerReply) => process.send?.(reply);
  const worker = createWorker(send);
  // A worker without its parent has nobody to answer to, and nothing of its own to save.
  process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
  // A terminal's Ctrl-C reaches the whole group; the parent decides when a worker ends.
  process.on("SIGINT", () => {});
  process.on("message", (message: WorkerRequest) => {
    worker.handle(message).catch((error: unknown) => {
      send({ type: "unusable", reason: reasonOf(error) });
      process.exitCode = 1;
      process.disconnect?.();
    });
  });
}

function createWorker(send: (reply: WorkerReply) => void) {
  const running = new Map<number, AbortController>();
  let whisper: Whisper | undefined;
  let model: LoadedModel | undefined;
  let files: NativeFiles | undefined;
  let vad: Vad | undefined;

  /** Runs one abortable piece of work; its failure is an answer, not the end of the worker. */
  async function answer(id: number, work: (signal: AbortSignal) => Promise<WorkerReply>): Promise<void> {
    const controller = new AbortController();
    running.set(id, controller);
    try {
      send(await work(controller.signal));
    } catch (error) {
      send({ type: "failed", id, reason: controller.signal.aborted ? "aborted" : reasonOf(error) });
    } finally {
      running.delete(id);
    }
  }

  return {
    async handle(request: WorkerRequest): Promise<void> {
      switch (request.type) {
        case "start":
          files = request.nativeFiles;
          whisper = openWhisper(files.dir, request.backendDirs);
          send({ type: "started", engine: factsOf(whisper) });
          return;
        case "load": {
          if (!whisper) throw new Error("the engine has not been started");
          const device = chooseDevice(whisper.devices, request.device);
          model = await whisper.load(request.weightsPath, { device: device.use, flashAttention: true });
          send({ type: "loaded", device: device.name });
          return;
        }
        case "transcribe":
          return answer(request.id, async (signal) => {
            if (!model) throw new Error("no model is loaded");
            const startedAt = performance.now();
            const decoded = await model.transcribe(readSlices(request.audio), request.options, { signal });
            const segments = decoded.map(({ tokens: _tokens, ...segment }) => segment);
            return {
              type: "transcribed",
              id: request.id,
              outcome: { segments, elapsedMs: Math.round(performance.now() - startedAt) },
            };
          });
        case "detect_speech":
          return answer(request.id, async (signal) => {
            if (!files) throw new Error("the engine has not been started");
            vad ??= openVad(files);
            return {
              type: "speech",
              id: request.id,
              regions: await vad.detectSpeech(request.pcmPath, { signal }),
            };
          });
        case "abort":
          running.get(request.id)?.abort(new Error("aborted"));
          return;
      }
    },
  };
}

function factsOf(whisper: Whisper) {
  const { version, cpuVariant, devices, backendFailures } = whisper;
  return { whisperVersion: version, cpuVariant, devices, backendFailures };
}

const DEVICE_NAMES: Record<Exclude<DevicePreference, "auto" | "cpu">, RegExp> = {
  cuda: /cuda/i,
  vulkan: /vulkan/i,
  metal: /metal|mtl/i,
};

/** The device for a preference; a named one that is missing is an error, `auto` falls back to the processor. */
export function chooseDevice(
  devices: readonly WhisperDevice[],
  preference: DevicePreference,
): { name: string; use: "cpu" | { gpuIndex: number } } {
  const gpus = devices.filter(({ type }) => type === "gpu" || type === "igpu");
  if (preference === "cpu") return { name: "cpu", use: "cpu" };
  const gpu = preference === "auto" ? gpus[0] : gpus.find(({ name }) => DEVICE_NAMES[preference].test(name));
  if (gpu) return { name: gpu.name, use: { gpuIndex: gpu.index } };
  if (preference === "auto") return { name: "cpu", use: "cpu" };
  throw new Error(`no ${preference} device was found; is its backend in the backends directory?`);
}

const BYTES_PER_SAMPLE = 2;

/**
 * Puts a chunk's audio together.
 *
 * @returns 16 kHz mono samples within −1 to 1, silence where no slice lies
 * @throws Error when the file ends before a slice does
 */
export function readSlices(audio: ChunkAudio): Float32Array {
  const samples = new Float32Array(audio.totalSamples);
  const file = openSync(audio.pcmPath, "r");
  try {
    for (const slice of audio.slices) {
      const pcm = new Int16Array(slice.samples);
      const bytes = new Uint8Array(pcm.buffer);
      let filled = 0;
      while (filled < bytes.length) {
        const position = slice.sourceStartSample * BYTES_PER_SAMPLE + filled;
        const count = readSync(file, bytes, filled, bytes.length - filled, position);
        if (count === 0) throw new Error("the decoded audio ends before the chunk does");
        filled += count;
      }
      for (let i = 0; i < pcm.length; i++) samples[slice.targetStartSample + i] = (pcm[i] ?? 0) / 32768;
    }
  } finally {
    closeSync(file);
  }
  return samples;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
