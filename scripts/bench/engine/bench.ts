import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pcmOf } from "../../../src/e2e/samples.ts";
import { buildWhisperPeers } from "../../../src/native/build/whisper.ts";
import { denseSpeech, RATE, repeated, writeWav } from "./audio.ts";
import { modelFile } from "./model-file.ts";
import type { Shruti } from "./shruti.ts";

const SAMPLES = ["01-en", "04-en", "12-en-long"];

/** What every measurement of the engine needs: a folder, models, recordings, and an end for its servers. */
export type Bench = {
  /** Exists until the end. */
  folder: string;
  /** Where whisper.cpp's programs are. */
  peersFolder: string;
  models: { id: string; path: string }[];
  /** Makes a subfolder, such as for a server. */
  subfolder(name: string): string;
  /** Speech of 16 kHz with short pauses. */
  speech: Int16Array;
  /** Writes a recording, and returns its path. */
  write(name: string, pcm: Int16Array): string;
  /** Writes recordings of dense speech that begin a second after each other, so that they differ. */
  several(name: string, count: number, seconds: number): string[];
  /** Stops a server at the end, unless it has been stopped by then. */
  keep(server: Shruti): Shruti;
};

/**
 * Runs a measurement. At its end, also at a signal, its servers are stopped and its folder is removed.
 *
 * @param models names, separated by commas (empty: none), and the words of each window of generated ones
 */
export async function runBench(
  name: string,
  models: { names: string; words: number },
  work: (bench: Bench) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), `shruti-bench-${name}-`));
  const servers: Shruti[] = [];
  const cleanUp = async () => {
    await Promise.all(servers.map((server) => server.stop()));
    rmSync(folder, { recursive: true, force: true });
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.on(signal, () => void cleanUp().finally(() => process.exit(1)));
  try {
    const peersFolder = await buildWhisperPeers();
    const place = { folder, peersFolder, words: models.words };
    await work({
      ...{ folder, peersFolder },
      models: models.names
        .split(",")
        .filter(Boolean)
        .map((id) => ({ id, path: modelFile(id, place) })),
      ...recordingsIn(folder),
      subfolder(sub) {
        const path = join(folder, sub);
        mkdirSync(path);
        return path;
      },
      keep(server) {
        servers.push(server);
        return server;
      },
    });
  } finally {
    await cleanUp();
  }
}

function recordingsIn(folder: string): Pick<Bench, "speech" | "write" | "several"> {
  const speech = denseSpeech(SAMPLES.map((sample) => new Int16Array(pcmOf(sample).buffer)));
  const write = (name: string, pcm: Int16Array) => {
    const path = join(folder, name);
    writeWav(path, pcm);
    return path;
  };
  const several = (name: string, count: number, seconds: number) =>
    Array.from({ length: count }, (_, n) =>
      write(`${name}-${n}.wav`, repeated(speech.subarray((n * RATE) % speech.length), seconds)),
    );
  return { speech, write, several };
}
