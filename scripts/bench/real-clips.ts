/**
 * Makes folders for `shruti benchmark` from the recordings of people in ../shared/real: single utterances, the same over a
 * telephone line, and the same in noise. Needs ffmpeg.
 *
 *     bun scripts/bench/real-clips.ts FOLDER
 *     SHRUTI_ENGINE_DOUBTFUL_TEXT=keep shruti benchmark FOLDER/hi --language hi --model whisper-base --json
 *
 * With `keep`, text below the floor counts, too. `total.reliability` then says how right words of each confidence are, and
 * `total.warnings` how many recordings carry each warning.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const SOURCE = join(import.meta.dirname, "../../../shared/real/speech");
/** Sound around an utterance, seconds. */
const MARGIN = 0.15;

/** Filters of ffmpeg by the name that a folder ends with. */
const LINES = {
  "": [],
  // 8 kHz, 300 to 3,400 Hz, µ-law.
  "-phone": ["-af", "highpass=f=300,lowpass=f=3400", "-ar", "8000", "-c:a", "pcm_mulaw"],
  // Pink noise some 10 dB below the speech.
  "-noise": [
    "-filter_complex",
    "[0:a]loudnorm=I=-23[speech];anoisesrc=color=pink:amplitude=0.06:seed=1:sample_rate=16000[noise];[speech][noise]amix=duration=first:normalize=0",
  ],
};

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: bun scripts/bench/real-clips.ts FOLDER");

type Part = { start: number; end: number; kind: string; id: string; ref?: string };

for (const language of ["en", "hi"]) {
  const parts = JSON.parse(readFileSync(join(SOURCE, `${language}-long.json`), "utf8")) as Part[];
  const speech = parts.filter(({ kind, ref }) => kind === "speech" && ref !== undefined);
  // The recordings have each utterance several times, at other speeds.
  const spoken = [...new Map(speech.toReversed().map((part) => [part.ref, part])).values()].reverse();
  for (const [line, options] of Object.entries(LINES)) {
    const target = join(folder, language + line);
    mkdirSync(target, { recursive: true });
    for (const [n, { start, end, id, ref }] of spoken.entries()) {
      const name = `${String(n + 1).padStart(2, "0")}-${id}`;
      const from = Math.max(0, start - MARGIN);
      const rate = line === "-phone" ? [] : ["-ar", "16000"];
      const { exitCode, stderr } = Bun.spawnSync([
        ...["ffmpeg", "-v", "error", "-y", "-ss", String(from), "-t", String(end - from + MARGIN)],
        ...["-i", join(SOURCE, `${language}-long.flac`), ...options, ...rate],
        ...["-ac", "1", join(target, `${name}.wav`)],
      ]);
      if (exitCode !== 0) throw new Error(`ffmpeg: ${stderr}`);
      writeFileSync(join(target, `${name}.txt`), `${ref}\n`);
    }
    console.log(`${target}: ${spoken.length} recordings`);
  }
}
