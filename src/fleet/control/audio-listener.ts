import { open } from "node:fs/promises";
import type { AudioRef, FileAudio } from "../../engine/protocol.ts";

export type AudioListenerOptions = {
  /** Address and port in the form host:port. */
  listen: string;
  /** PEM texts. */
  tls: { cert: string; key: string };
  /** Reports whether a token opens the audio of a job. */
  opens: (job: string, token: string) => boolean;
  /** Returns the audio of a job that is wanted; undefined: it is not, or not any more. */
  audioOf: (job: string) => AudioRef | undefined;
};

/** The HTTPS server from which workers fetch audio. It knows nothing of keys, projects and other requests. */
export type AudioListener = {
  port: number;
  /** Returns the number of answers by their status since the start. */
  answers(): ReadonlyMap<number, number>;
  close(): Promise<void>;
};

const BYTES_PER_SAMPLE = 2;
const BLOCK_BYTES = 128 * 1024;
const IDLE_SECONDS = 30;
const PATH = /^\/audio\/([0-9a-f]{32})$/;

/** @throws Error when it cannot listen there */
export function openAudioListener({ listen, tls, opens, audioOf }: AudioListenerOptions): AudioListener {
  const answers = new Map<number, number>();

  function answer(request: Request): Response {
    const { pathname } = new URL(request.url);
    // `shruti doctor` of a worker asks whether it can reach this server.
    if (pathname === "/") return new Response("shruti fleet\n");
    const job = PATH.exec(pathname)?.[1];
    if (job === undefined || request.method !== "GET") return new Response(null, { status: 404 });
    const token = /^Bearer (\S{1,200})$/.exec(request.headers.get("authorization") ?? "")?.[1];
    if (token === undefined || !opens(job, token)) return new Response(null, { status: 401 });
    const audio = audioOf(job);
    if (!audio) return new Response(null, { status: 404 });
    return new Response("pcm" in audio ? new Uint8Array(audio.pcm) : streamOf(audio), {
      headers: { "content-type": "application/octet-stream", "cache-control": "no-store" },
    });
  }

  const at = listen.lastIndexOf(":");
  const server = Bun.serve({
    hostname: listen.slice(0, at).replace(/^\[|\]$/g, ""),
    port: Number(listen.slice(at + 1)),
    tls,
    idleTimeout: IDLE_SECONDS,
    maxRequestBodySize: 0,
    fetch(request) {
      const response = answer(request);
      answers.set(response.status, (answers.get(response.status) ?? 0) + 1);
      return response;
    },
    error: () => new Response(null, { status: 500 }),
  });
  return {
    port: server.port ?? 0,
    answers: () => answers,
    close: () => server.stop(true),
  };
}

/** A stretch of a chunk's audio: samples of a file, or silence. */
type Stretch = { fileSample: number | undefined; samples: number };

/** Lists the stretches of a chunk in order. Samples that no slice covers are silence. */
function stretchesOf({ slices, totalSamples }: FileAudio): Stretch[] {
  const stretches: Stretch[] = [];
  let at = 0;
  for (const slice of [...slices].sort((a, b) => a.targetStartSample - b.targetStartSample)) {
    if (slice.targetStartSample > at)
      stretches.push({ fileSample: undefined, samples: slice.targetStartSample - at });
    stretches.push({ fileSample: slice.sourceStartSample, samples: slice.samples });
    at = slice.targetStartSample + slice.samples;
  }
  if (at < totalSamples) stretches.push({ fileSample: undefined, samples: totalSamples - at });
  return stretches;
}

/** Reads a chunk's audio while it is sent: 16-bit samples, little-endian, 16 kHz mono. */
function streamOf(audio: FileAudio): ReadableStream<Uint8Array> {
  const blocks = blocksOf(audio);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await blocks.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await blocks.return(undefined);
    },
  });
}

async function* blocksOf(audio: FileAudio): AsyncGenerator<Uint8Array, void> {
  const file = await open(audio.pcmPath, "r");
  try {
    for (const { fileSample, samples } of stretchesOf(audio)) {
      const bytes = samples * BYTES_PER_SAMPLE;
      for (let done = 0; done < bytes; ) {
        const block = new Uint8Array(Math.min(BLOCK_BYTES, bytes - done));
        if (fileSample !== undefined) {
          const { bytesRead } = await file.read(block, 0, block.length, fileSample * BYTES_PER_SAMPLE + done);
          if (bytesRead < block.length) throw new Error("the decoded audio ends before the chunk does");
        }
        done += block.length;
        yield block;
      }
    }
  } finally {
    await file.close();
  }
}
