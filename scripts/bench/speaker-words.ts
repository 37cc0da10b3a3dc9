/**
 * How many words get the right speaker, where segments are divided at the words by their times, and where text is divided in
 * proportion to time because words have none.
 *
 *   bun scripts/bench/speaker-words.ts --segmentation FILE --speaker FILE FOLDER…
 *
 * The folders are those of `speakers.ts`. The words are scripted: in each labelled turn they follow each other, and of those that
 * are spoken at once the first is heard. Their times are wrong by 60 ms, as a standard deviation. Segments end at pauses of 0.6 s and
 * after 15 s. Turns are the labels, and what the nets and the built-in method find. Needs a build.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, extname, join } from "node:path";
import { parseArgs } from "node:util";
import { diarizeAcoustically } from "../../src/diarization/diarize.ts";
import { diarizeNeurally } from "../../src/diarization/diarize-neural.ts";
import type { Word } from "../../src/domain/result.ts";
import { decodeAudio } from "../../src/engine/audio/decode.ts";
import { openVad } from "../../src/engine/vad/vad.ts";
import { assign } from "../../src/lib/assign.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { joinSpeakers, type Turn } from "../../src/pipeline/speakers.ts";
import type { LooseSegment } from "../../src/pipeline/stitch.ts";
import { fitWords } from "../../src/pipeline/timed-words.ts";
import { type LabelledSpan, parseRttm } from "../../src/testing/kits/der.ts";
import { randomFrom } from "./conversations.ts";

const LONGEST_MS = 24 * 3_600_000;
const ERROR_MS = 60;
const PAUSE_MS = 600;
const LONGEST_SEGMENT_MS = 15_000;

const { values, positionals } = parseArgs({
  options: { segmentation: { type: "string" }, speaker: { type: "string" } },
  allowPositionals: true,
});
const { segmentation, speaker } = values;
if (segmentation === undefined || speaker === undefined || positionals.length === 0)
  throw new Error("usage: bun scripts/bench/speaker-words.ts --segmentation FILE --speaker FILE FOLDER…");

const weights = { segmentationPath: segmentation, embeddingPath: speaker };
const { signal } = new AbortController();
const directory = mkdtempSync(join(tmpdir(), "shruti-bench-"));
try {
  const native = await extractNativeFiles(directory);
  const vad = openVad(native);
  console.log("| recording | words | turns | in proportion | by words |");
  console.log("|---|---|---|---|---|");
  for (const folder of positionals) {
    for (const name of readdirSync(folder)
      .filter((each) => extname(each) !== ".rttm")
      .sort()) {
      const pcmPath = join(directory, "recording.pcm");
      const limits = { maxDurationMs: LONGEST_MS, timeoutMs: LONGEST_MS };
      await decodeAudio(native, join(folder, name), { output: pcmPath, ...limits });
      const labels = readFileSync(join(folder, `${basename(name, extname(name))}.rttm`), "utf8");
      const reference = [...parseRttm(labels).values()].flat();
      const job = { tracks: [{ pcmPath, regions: await vad.detectSpeech(pcmPath) }] };
      const found: [name: string, turns: Turn[]][] = [
        ["labels", turnsOf(reference)],
        ["nets", (await diarizeNeurally(native, job, weights, { signal })).turns[0] ?? []],
        ["built in", (await diarizeAcoustically(job, signal)).turns[0] ?? []],
      ];
      const { segments, speakers } = scripted(reference, randomFrom(1));
      for (const [method, turns] of found) {
        const [without, withWords] = [segments.map(({ words: _, ...rest }) => rest), segments].map((each) =>
          rightShare(joinSpeakers(each, [turns]), speakers),
        );
        console.log(
          `| ${name} | ${speakers.size} | ${method} | ${percent(without)} | ${percent(withWords)} |`,
        );
      }
    }
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}

function percent(share = 0): string {
  return `${(100 * share).toFixed(1)} %`;
}

function turnsOf(reference: readonly LabelledSpan[]): Turn[] {
  const names = [...new Set(reference.map((span) => span.speaker))];
  return reference.map(({ startMs, endMs, speaker: name }) => ({
    startMs,
    endMs,
    speaker: names.indexOf(name),
  }));
}

/** Makes the segments of a recognizer, and the speaker of each word. */
function scripted(reference: readonly LabelledSpan[], random: () => number) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const spoken: (Word & { speaker: string })[] = [];
  for (const span of reference) {
    for (let atMs = span.startMs; atMs + 120 < span.endMs; ) {
      const endMs = Math.min(span.endMs, atMs + 150 + 300 * random());
      spoken.push({ text: "", startMs: atMs, endMs, confidence: 1, speaker: span.speaker });
      atMs = endMs + 60 * random();
    }
  }
  spoken.sort((a, b) => a.startMs - b.startMs);
  const heard: typeof spoken = [];
  for (const word of spoken) if (word.startMs >= (heard.at(-1)?.endMs ?? 0)) heard.push(word);
  const speakers = new Map(heard.map((word, index) => [`w${index}`, word.speaker]));
  const groups: Word[][] = [];
  for (const [index, { startMs, endMs }] of heard.entries()) {
    const [group, before] = [groups.at(-1), heard[index - 1]];
    const word = { text: `w${index}`, startMs, endMs, confidence: 1 };
    const isPause = startMs - (before?.endMs ?? 0) >= PAUSE_MS;
    if (!group || isPause || endMs - (group[0]?.startMs ?? 0) > LONGEST_SEGMENT_MS) groups.push([word]);
    else group.push(word);
  }
  const segments = groups.map((words): LooseSegment => {
    const [startMs, endMs] = [Math.round(words[0]?.startMs ?? 0), Math.round(words.at(-1)?.endMs ?? 0)];
    const inexact = words.map((word) => ({
      ...word,
      ...{ startMs: word.startMs + ERROR_MS * normal(), endMs: word.endMs + ERROR_MS * normal() },
    }));
    const fitted = fitWords(inexact, { startMs, endMs });
    const text = words.map((word) => word.text).join(" ");
    return { startMs, endMs, text, language: "en", confidence: 1, ...(fitted ? { words: fitted } : {}) };
  });
  return { segments, speakers };
}

/** Returns the share of words with the right speaker, with the best assignment of the labels to people. */
function rightShare(segments: readonly LooseSegment[], speakers: ReadonlyMap<string, string>): number {
  const people = [...new Set(speakers.values())];
  const labels = [...new Set(segments.map((segment) => segment.speaker ?? ""))];
  const counts = people.map(() => labels.map(() => 0));
  for (const segment of segments) {
    for (const word of segment.text.split(" ")) {
      const row = counts[people.indexOf(speakers.get(word) ?? "")];
      const column = labels.indexOf(segment.speaker ?? "");
      if (row) row[column] = (row[column] ?? 0) + 1;
    }
  }
  const assigned = assign(counts);
  const right = assigned.reduce((sum, column, row) => sum + (counts[row]?.[column] ?? 0), 0);
  return right / speakers.size;
}
