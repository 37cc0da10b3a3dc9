/**
 * Diarization error rates of the built-in acoustic method (NIST's definition, collars of 0 and 0.25 s, overlapping
 * speech scored), with a given and with an estimated number of speakers, and its processor time.
 *
 *   bun scripts/bench/diarization.ts [--hour]
 *
 * Conversations are made of espeak-ng's voices and of the voices of models/samples; labelled recordings of people are
 * read from ../shared/data/diarization (pyannote's sample, meetings of the AMI corpus). Missing data is left out and
 * reported. --hour adds an hour of two voices.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { diarizeAcoustically } from "../../src/diarization/diarize.ts";
import { openVad } from "../../src/engine/vad/vad.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { type DerScore, parseRttm, scoreDiarization, sumScores } from "../../src/testing/kits/der.ts";
import {
  type Conversation,
  converse,
  level,
  SYNTHETIC_VOICES,
  sampleVoices,
  speak,
  toPcm,
  type Utterances,
} from "./conversations.ts";

const ROOT = join(import.meta.dir, "../..");
const LABELLED = join(ROOT, "../shared/data/diarization");
/** The clips of meetings are labelled so far. */
const LABELLED_MS = 30_000;
const SAMPLE_RATE_HZ = 16_000;

type Group = { name: string; conversations: Conversation[] };

const directory = mkdtempSync(join(tmpdir(), "shruti-bench-"));
try {
  const native = await extractNativeFiles(directory);
  const vad = openVad(native);
  const groups: Group[] = [
    ...(await syntheticGroups("ffmpeg")),
    await sampleGroup("ffmpeg"),
    ...(await labelledGroups("ffmpeg")),
  ];
  console.log(
    "| recording | speakers | DER, 0.25 s | DER, 0 s | missed | false | confused | found | DER when found |",
  );
  console.log("|---|---|---|---|---|---|---|---|---|");
  for (const { name, conversations } of groups) {
    const scores: DerScore[] = [];
    for (const conversation of conversations) {
      const path = join(directory, "conversation.pcm");
      await Bun.write(path, conversation.pcm);
      const regions = await vad.detectSpeech(path);
      const { given } = await measure(conversation, { pcmPath: path, regions });
      scores.push(given);
    }
    if (scores.length > 1)
      console.log(`| **${name}, all** | | **${percent(sumScores(scores))}** | | | | | | |`);
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}

type Track = Parameters<typeof diarizeAcoustically>[0]["tracks"][number];

async function measure(conversation: Conversation, track: Track): Promise<{ given: DerScore }> {
  const { name, speakers, pcm, reference } = conversation;
  const evaluatedMs = { startMs: 0, endMs: (pcm.length / SAMPLE_RATE_HZ) * 1000 };
  const run = async (bounds: { minSpeakers?: number; maxSpeakers?: number }) => {
    const startedAt = process.cpuUsage();
    const outcome = await diarizeAcoustically({ tracks: [track], ...bounds }, new AbortController().signal);
    const { user, system } = process.cpuUsage(startedAt);
    const turns = (outcome.turns[0] ?? []).map((turn) => ({ ...turn, speaker: String(turn.speaker) }));
    return { turns, cpuMs: (user + system) / 1000, isUncertain: outcome.isCountUncertain };
  };
  const given = await run({ minSpeakers: speakers, maxSpeakers: speakers });
  const found = await run({});
  const score = (turns: typeof given.turns, collarMs: number) =>
    scoreDiarization(reference, turns, { collarMs, evaluatedMs });
  const strict = score(given.turns, 0);
  const lenient = score(given.turns, 250);
  const foundNumber = new Set(found.turns.map(({ speaker }) => speaker)).size;
  const share = (ms: number) => `${((100 * ms) / lenient.totalMs).toFixed(1)}`;
  const cells = [
    name,
    speakers,
    percent(lenient),
    percent(strict),
    share(lenient.missedMs),
    share(lenient.falseAlarmMs),
    share(lenient.confusedMs),
    `${foundNumber}${found.isUncertain ? " (uncertain)" : ""}`,
    percent(score(found.turns, 250)),
  ];
  console.log(`| ${cells.join(" | ")} |`);
  if (evaluatedMs.endMs > 1_800_000) {
    console.log(
      `\n${name}: ${((100 * found.cpuMs) / evaluatedMs.endMs).toFixed(2)} % of real time on one core\n`,
    );
  }
  return { given: lenient };
}

function percent({ errorRate }: DerScore): string {
  return `${(errorRate * 100).toFixed(1)} %`;
}

async function syntheticGroups(ffmpeg: string): Promise<Group[]> {
  if (!Bun.which("espeak-ng")) {
    console.log("espeak-ng is not installed: conversations of synthetic voices are left out\n");
    return [];
  }
  const voices: Utterances[] = [];
  for (const [index, voice] of SYNTHETIC_VOICES.entries()) {
    const { speaker, utterances } = await speak(voice, ffmpeg, index * 5);
    voices.push({ speaker, utterances: utterances.map((utterance) => level(utterance)) });
  }
  const among = (...indices: number[]) =>
    indices.map((index) => voices[index]).filter((voice) => voice !== undefined);
  const calls = [
    [0, 1],
    [0, 2],
    [1, 3],
    [4, 5],
    [6, 7],
    [8, 9],
    [2, 8],
    [3, 6],
    [0, 7],
    [1, 5],
  ];
  const groups = [
    { name: "one voice", sets: [[0], [1], [4], [6], [9]], seconds: 90 },
    { name: "two-voice calls", sets: calls, seconds: 120 },
    {
      name: "three voices",
      sets: [
        [0, 1, 2],
        [3, 4, 8],
        [5, 6, 7],
      ],
      seconds: 180,
    },
    {
      name: "four voices",
      sets: [
        [0, 1, 4, 6],
        [2, 3, 5, 8],
      ],
      seconds: 240,
    },
    ...(process.argv.includes("--hour")
      ? [{ name: "an hour of two voices", sets: [[1, 6]], seconds: 3_600 }]
      : []),
  ];
  return groups.map(({ name, sets, seconds }, group) => ({
    name,
    conversations: sets.map((set, index) =>
      converse(`${name}, ${set.join("+")}`, among(...set), seconds, 1 + group * 100 + index),
    ),
  }));
}

async function sampleGroup(ffmpeg: string): Promise<Group> {
  const voices = await sampleVoices(join(ROOT, "models/samples"), ffmpeg);
  const among = (names: readonly string[]) =>
    voices
      .filter(({ speaker }) => names.includes(speaker))
      .map(({ speaker, utterances }) => ({
        speaker,
        utterances: utterances.map((utterance) => level(utterance)),
      }));
  const isThere = (name: string) => voices.some(({ speaker }) => speaker === name);
  const pairs = [
    ["flite-awb", "fest-kal_diphone"],
    ["fest-marathi_NSK_diphone", "hi+klatt4"],
    ["flite-awb", "en+iven3"],
    ["fest-kal_diphone", "fest-marathi_NSK_diphone"],
  ].filter((pair) => pair.every(isThere));
  const conversations = pairs.map((pair, index) =>
    converse(pair.join(" and "), among(pair), 60, 500 + index),
  );
  return { name: "calls of the samples' voices", conversations };
}

async function labelledGroups(ffmpeg: string): Promise<Group[]> {
  if (!existsSync(LABELLED)) {
    console.log(`${LABELLED} is not there: recordings of people are left out\n`);
    return [];
  }
  const rttm = (name: string) => parseRttm(readFileSync(join(LABELLED, name), "utf8"));
  const clip = async (
    file: string,
    reference: ReturnType<typeof rttm>,
    label: string,
  ): Promise<Conversation> => {
    const whole = await toPcm(ffmpeg, readFileSync(join(LABELLED, file)));
    const spans = reference.get(label) ?? [];
    const pcm = whole.slice(0, (LABELLED_MS / 1000) * SAMPLE_RATE_HZ);
    return { name: file, speakers: new Set(spans.map(({ speaker }) => speaker)).size, pcm, reference: spans };
  };
  const ami = rttm("ami.rttm");
  const meetings: Conversation[] = [];
  for (const name of ["dev00", "trn00", "trn01"]) meetings.push(await clip(`${name}.wav`, ami, name));
  const sample = await clip("pyannote_sample.wav", rttm("pyannote_sample.rttm"), "sample");
  return [
    { name: "pyannote sample", conversations: [sample] },
    { name: "meetings", conversations: meetings },
  ];
}
