import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import type { AudioRef, FileAudio } from "../../engine/protocol.ts";
import { until } from "../../testing/kits/fleet-chunks.ts";
import { makeAuthority, makeServerCertificate } from "../setup/certificates.ts";
import { audioRoute } from "./audio-route.ts";
import { type Listener, openListener } from "./listener.ts";

/** Bytes of a sample, and samples of the file: several blocks of the route. */
const BYTES = 2;
const SAMPLES = 480_000;
const TOKEN = "right";

/** Audio that lies in a file. Samples have another value at each place. */
type Layout = { name: string; slices: [source: number, samples: number, target: number][]; total?: number };
const LAYOUTS: Layout[] = [
  { name: "one stretch", slices: [[1_000, 300_000, 0]] },
  { name: "one short stretch", slices: [[7, 1, 0]] },
  {
    name: "stretches one after the other",
    slices: [
      [0, 100_000, 0],
      [150_000, 200_001, 100_000],
      [400_000, 3, 300_001],
    ],
  },
  {
    name: "stretches in another order",
    slices: [
      [0, 10, 200_000],
      [300_000, 90_000, 0],
    ],
    total: 200_010,
  },
  { name: "silence before, between and after", slices: [[5_000, 140_000, 131_072]], total: 400_000 },
  { name: "only silence", slices: [], total: 5 },
];

function fileAudio(pcmPath: string, { slices, total }: Omit<Layout, "name">): FileAudio {
  return {
    pcmPath,
    slices: slices.map(([sourceStartSample, samples, targetStartSample]) => {
      return { sourceStartSample, samples, targetStartSample };
    }),
    totalSamples: total ?? slices.reduce((sum, [, samples]) => sum + samples, 0),
  };
}

describe("the audio of a chunk", () => {
  let folder: string;
  let ca: string;
  let listener: Listener;
  let pcmPath: string;
  const content = new Uint8Array(BYTES * SAMPLES);
  const wanted = new Map<string, AudioRef>();
  const idOf = (n: number) => n.toString(16).padStart(32, "0");

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "shruti-audio-route-"));
    pcmPath = join(folder, "mix.pcm");
    const values = new Uint32Array(content.buffer);
    for (let n = 0; n < values.length; n++) values[n] = Math.imul(n, 0x9e3779b1);
    writeFileSync(pcmPath, content);
    const authority = await makeAuthority("main");
    ca = authority.cert;
    listener = openListener({
      listen: "127.0.0.1:0",
      tls: await makeServerCertificate(authority, ["127.0.0.1"]),
      routes: [
        audioRoute({
          tokens: { opens: (_, __, token) => token === TOKEN },
          audioOf: (job) => wanted.get(job),
        }),
      ],
    });
  });
  afterAll(async () => {
    await listener.close();
    rmSync(folder, { recursive: true });
  });

  function ask(job: string, token = TOKEN): Promise<Response> {
    return fetch(`https://127.0.0.1:${listener.port}/audio/${job}`, {
      headers: { authorization: `Bearer ${token}` },
      tls: { ca },
    });
  }

  /** Returns the SHA-256 of the audio that comes for a job, and of the audio that should. */
  async function compared(layout: Omit<Layout, "name">, job: string) {
    const audio = fileAudio(pcmPath, layout);
    wanted.set(job, audio);
    const right = new Uint8Array(audio.totalSamples * BYTES);
    for (const [source, samples, target] of layout.slices) {
      right.set(content.subarray(source * BYTES, (source + samples) * BYTES), target * BYTES);
    }
    const response = await ask(job);
    const found = await response.bytes();
    return {
      found: [response.status, found.length, Bun.SHA256.hash(found, "hex")],
      right: [200, right.length, Bun.SHA256.hash(right, "hex")],
    };
  }

  const openFiles = () =>
    readdirSync("/proc/self/fd").filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`) === pcmPath;
      } catch {
        return false;
      }
    }).length;

  test.each(LAYOUTS)("is sent byte by byte: $name", async (layout) => {
    const { found, right } = await compared(layout, idOf(1));
    expect(found).toEqual(right);
  });

  test("is sent from memory", async () => {
    wanted.set(idOf(1), { pcm: new Uint8Array([1, 2, 3, 4]), totalSamples: 2 });
    expect(await (await ask(idOf(1))).bytes()).toEqual(new Uint8Array([1, 2, 3, 4]));
  });

  test("is not mixed with that of other chunks that are sent at the same time", async () => {
    const layouts = Array.from({ length: 24 }, (_, n): Layout => {
      const shift = n * 1_000;
      return {
        name: "",
        slices: [
          [shift, 200_000, 0],
          [shift + 210_000, 200_000, 200_000],
        ],
      };
    });
    for (let round = 0; round < 2; round++) {
      const all = await Promise.all(layouts.map((layout, n) => compared(layout, idOf(100 + n))));
      expect(all.map(({ found }) => found)).toEqual(all.map(({ right }) => right));
    }
    await until(() => openFiles() === 0);
  });

  test("needs the right token, and a job that is wanted", async () => {
    wanted.set(idOf(1), fileAudio(pcmPath, { slices: [[0, 1, 0]] }));
    wanted.delete(idOf(2));
    expect((await ask(idOf(1), "wrong")).status).toBe(401);
    expect((await ask(idOf(2))).status).toBe(404);
  });

  // A status of 404 would mean that the chunk is not wanted any more.
  test.each<[string, Omit<Layout, "name">, () => string]>([
    ["ends within the only stretch", { slices: [[SAMPLES - 10, 20, 0]] }, () => pcmPath],
    [
      "ends within the last stretch",
      {
        slices: [
          [0, 200_000, 0],
          [SAMPLES - 10, 20, 200_000],
        ],
      },
      () => pcmPath,
    ],
    ["is missing", { slices: [[0, 10, 0]] }, () => join(folder, "missing.pcm")],
    [
      "is missing with two stretches",
      {
        slices: [
          [0, 10, 0],
          [20, 10, 10],
        ],
      },
      () => join(folder, "missing.pcm"),
    ],
  ])("never comes whole when the file %s", async (_, layout, path) => {
    const audio = fileAudio(path(), layout);
    wanted.set(idOf(1), audio);
    const outcome = await ask(idOf(1)).then(
      async (response) => ({
        status: response.status,
        bytes: (await response.bytes().catch(() => [])).length,
      }),
      () => ({ status: 0, bytes: 0 }),
    );
    expect(outcome.status).not.toBe(404);
    expect(outcome.bytes).toBeLessThan(audio.totalSamples * BYTES);
    await until(() => openFiles() === 0);
  });

  test("leaves no file open when the receiver stops reading and goes away", async () => {
    const slices: Layout["slices"] = [];
    // More than sockets hold.
    for (let n = 0; n < 100; n++) slices.push([n * 10, 400_000, n * 400_000]);
    wanted.set(idOf(1), fileAudio(pcmPath, { slices }));
    const socket = connect({ host: "127.0.0.1", port: listener.port, ca });
    socket.on("error", () => {});
    socket.write(`GET /audio/${idOf(1)} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKEN}\r\n\r\n`);
    socket.pause();
    await until(() => openFiles() === 1);
    socket.destroy();
    await until(() => openFiles() === 0);
  });
});
