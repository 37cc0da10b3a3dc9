import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { databasePath, openDatabase } from "../../src/store/database.ts";
import { openTestApp, type TestAppOptions } from "../../src/testing/kits/open-test-app.ts";
import { clientOf, forever } from "../../src/testing/kits/scheduler-kit.ts";
import { createScriptedEngine, scriptedAudio } from "../../src/testing/kits/scripted-engine.ts";
import { round, watchPauses } from "./watch-pauses.ts";

/**
 * Measures how long the event loop is held while a long recording, whose chunks have all been recognized, gets its
 * result, and while the transcript is read in each format and deleted:
 *
 *     bun scripts/bench/long-recordings.ts [12h] [24h] [120000]
 *
 * The database is on the disk of `TMPDIR`.
 */
type Recording = { chunks: number; chunkMs: number; segments: number; words: number };

/** About 10,000 words an hour; and as many chunks as there can be, with few words each. */
const RECORDINGS: Record<string, Recording> = {
  "12h": { chunks: 1_728, chunkMs: 25_000, segments: 9, words: 8 },
  "24h": { chunks: 3_456, chunkMs: 25_000, segments: 9, words: 8 },
  "120000": { chunks: 120_000, chunkMs: 4_000, segments: 1, words: 5 },
};

const WORDS = "नमस्ते यह एक लंबी रिकॉर्डिंग है जिसमें बहुत सारे शब्द और वाक्य हैं hello world बोलते दो हज़ार पच्चीस".split(
  " ",
);
let spoken = 0;

/** Returns the next word. Every seventh has one of a thousand endings, so that not all words are the same ones. */
function nextWord(): string {
  const word = WORDS[spoken++ % WORDS.length] ?? "";
  const letter = (step: number) => String.fromCodePoint(0x915 + ((spoken * step) % 34));
  return spoken % 7 === 0 ? `${word}${letter(31)}ा${letter(17)}` : word;
}

function chunkAt(position: number, { chunkMs, segments, words }: Recording) {
  const startMs = position * chunkMs;
  const regions = Array.from({ length: 5 }, (_, n) => {
    const startSample = startMs * 16 + n * chunkMs * 3;
    return { startSample, endSample: startSample + chunkMs * 2 };
  });
  const eachMs = chunkMs / segments;
  const said = Array.from({ length: segments }, (_, n) => ({
    startMs: Math.round(startMs + n * eachMs),
    endMs: Math.round(startMs + (n + 1) * eachMs) - 20,
    text: Array.from({ length: words }, nextWord).join(" "),
    ...{ language: "hi", confidence: 0.87123 },
  }));
  return { position, startMs, endMs: startMs + chunkMs, regions, segments: said };
}

/** Opens the program. Decoding never ends, because the sound would fill the disk. */
function open(directory: string, options: TestAppOptions = {}) {
  const engine = createScriptedEngine();
  engine.interfere({ decode: (_job, signal) => forever(signal) });
  const config = { server: { drain_seconds: 0 }, limits: { max_duration_seconds: 3_600_000 } };
  return openTestApp({ directory, engine, config, ...options });
}

/** Leaves a recording whose chunks have all ended. */
async function leaveRecognized(
  directory: string,
  recording: Recording,
): Promise<{ id: string; key: string }> {
  const first = await open(directory, { creditPaise: 1e10 });
  const client = clientOf(first);
  const seconds = (recording.chunks * recording.chunkMs) / 1000;
  const { id: upload } = await client.upload(scriptedAudio({ seconds, text: "एक" }));
  const { id } = (await client.start({ audio: { upload_id: upload }, language: "hi" })).body;
  while (first.app.scheduler.status().running < 1) await Bun.sleep(2);
  await first.close();
  const { sqlite, close } = openDatabase(databasePath(directory));
  sqlite.transaction(() => {
    sqlite.run("UPDATE transcriptions SET audio_warnings = '[]' WHERE id = ?", [id]);
    const insertion = sqlite.prepare(`INSERT INTO chunks
      (transcription_id, position, channel, start_ms, end_ms, speech_ms, regions, state, attempt, segments, warnings)
      VALUES (?, ?, 0, ?, ?, ?, ?, 'done', 'a', ?, '[]')`);
    for (let n = 0; n < recording.chunks; n++) {
      const { startMs, endMs, regions, segments } = chunkAt(n, recording);
      const lists = [JSON.stringify(regions), JSON.stringify(segments)] as const;
      insertion.run(id, n, startMs, endMs, endMs - startMs, ...lists);
    }
  })();
  close();
  const work = join(directory, "work", id);
  mkdirSync(work, { recursive: true });
  writeFileSync(join(work, "mix.pcm"), "");
  return { id, key: first.key };
}

/** Forgets the process's highest memory so far. */
const forgetPeak = () => writeFileSync("/proc/self/clear_refs", "5");

/** Returns the process's highest memory since then, MB. */
function peakMb(): number {
  const [, kb] = /VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8")) ?? [];
  return Math.round(Number(kb) / 1024);
}

async function measure(name: string, recording: Recording): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "shruti-long-"));
  try {
    const { id, key } = await leaveRecognized(directory, recording);
    Bun.gc(true);
    forgetPeak();
    const watchOf = async (what: string, work: () => Promise<object>) => {
      await Bun.sleep(100);
      const ended = watchPauses();
      const began = performance.now();
      const found = await work();
      const took = round(performance.now() - began);
      console.log(JSON.stringify({ recording: name, what, took, ...ended(), ...found }));
    };
    const { app, as, close } = await open(directory, { creditPaise: 0 });
    const { transcriptions } = app.services;
    await watchOf("end", async () => {
      while (transcriptions.find(id)?.state !== "completed") await Bun.sleep(2);
      return { peak_mb: peakMb() };
    });
    for (const format of ["json", "srt", "vtt", "text"]) {
      await watchOf(format, async () => {
        const path = `/v1/transcriptions/${id}/result?format=${format}`;
        const request = new Request(`http://shruti.test${path}`, {
          headers: { authorization: `Bearer ${key}` },
        });
        const answer = await app.handle(request);
        return { bytes: (await answer.arrayBuffer()).byteLength };
      });
    }
    await watchOf("delete", () => as(key)(`/v1/transcriptions/${id}`, { method: "DELETE" }));
    await close();
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const names = process.argv.slice(2);
for (const [name, recording] of Object.entries(RECORDINGS))
  if (names.length === 0 || names.includes(name)) await measure(name, recording);
process.exit(0);
