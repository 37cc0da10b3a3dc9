import { afterAll, beforeAll, expect, test } from "bun:test";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { parseVtt } from "../testing/answers/subtitle-parsers.ts";
import { type Installation, install, type RunningServer, reached, uploaded } from "./kit.ts";
import { type Sound, wavOf } from "./sounds.ts";
import { another, person } from "./two-people.ts";

/** Who says what, of two people who answer in a word, interrupt, and talk at once: the executable's segments and subtitles. */

let installation: Installation;
let server: RunningServer;
let api: ApiClient;
beforeAll(async () => {
  installation = await install();
  server = await (await installation.serve()).ready();
  api = server.api();
}, 120_000);
afterAll(async () => {
  await server?.stop();
  await installation?.remove();
});

type Who = "one" | "other";
/** What a person says, and when it begins, in seconds. */
type Said = { who: Who; at: number; sound: Sound };

const RATE_HZ = 16_000;
const samplesOf = ({ sound }: Said) => sound.channels[0] ?? new Float32Array();
const endOf = (said: Said) => said.at + samplesOf(said).length / RATE_HZ;

/** Mixes what is said into one recording. */
function mixed(said: readonly Said[]): Uint8Array<ArrayBuffer> {
  const mix = new Float32Array(Math.ceil((Math.max(...said.map(endOf)) + 0.5) * RATE_HZ));
  for (const each of said)
    for (const [n, sample] of samplesOf(each).entries()) {
      const place = Math.round(each.at * RATE_HZ) + n;
      mix[place] = (mix[place] ?? 0) + sample;
    }
  return wavOf({ rateHz: RATE_HZ, channels: [mix] });
}

async function transcribed(said: readonly Said[]) {
  const audio = { upload_id: await uploaded(api, mixed(said)) };
  const { id } = (
    await api.start({ audio, model: "whisper-base", language: "en", diarization: { speakers: 2 } })
  ).body;
  expect((await reached(api, id, undefined, 240_000)).state).toBe("completed");
  const headers = { accept: "text/vtt" };
  const cues = parseVtt(await (await api.send(`/v1/transcriptions/${id}/result`, { headers })).text());
  return { segments: (await api.result(id)).segments, cues };
}

/** The clause that President Kennedy says: "ask not | what your country can do for you | ask what you can do …". */
const CLAUSE = [3, 11] as const;
const BEGINNING = [3, 4.6] as const;
const REST = [5.2, 11] as const;
const FIRST_HALF = [3, 7.8] as const;
const SECOND_HALF = [7.9, 11] as const;
/** "What your", which the other person says in less than 0.5 s. */
const WORD = [5.4, 5.95] as const;
/** "What your country can do for you", which takes the other person 1.8 s. */
const ANSWER = [5.2, 7.7] as const;

type Line = { who: Who; at: number; part: readonly [number, number] };
/** Both say the clause once, so that the nets know both voices. */
const scene = (...parts: Line[]): Line[] => [
  { who: "other", at: 0.5, part: CLAUSE },
  ...parts,
  { who: "other", at: Math.max(...parts.map(({ at, part }) => at + part[1] - part[0])) + 1, part: CLAUSE },
];

const SCENES: [title: string, parts: Line[], whole: Who[]][] = [
  [
    "an answer of one word in a pause does not cut a sentence",
    scene(
      { who: "one", at: 7.2, part: BEGINNING },
      { who: "other", at: 9.15, part: WORD },
      { who: "one", at: 9.9, part: REST },
    ),
    ["other", "one", "other"],
  ],
  [
    "a word that is said at the same time does not cut a sentence",
    scene({ who: "one", at: 7.2, part: CLAUSE }, { who: "other", at: 10.4, part: WORD }),
    ["other", "one", "other"],
  ],
  [
    "a longer answer does",
    scene(
      { who: "one", at: 7.2, part: FIRST_HALF },
      { who: "other", at: 12.2, part: ANSWER },
      { who: "one", at: 14.2, part: SECOND_HALF },
    ),
    ["other", "one", "other", "one", "other"],
  ],
  [
    "where two talk at once both are kept",
    scene(
      { who: "one", at: 5, part: CLAUSE },
      { who: "one", at: 14, part: CLAUSE },
      { who: "other", at: 20.5, part: CLAUSE },
    ),
    ["other", "one", "other"],
  ],
];

test.each(SCENES)(
  "%s, and a segment belongs to the speaker of most of it",
  async (_title, parts, order) => {
    const said: Said[] = [];
    for (const { who, at, part } of parts) {
      const sound = await person(...part);
      said.push({ who, at, sound: who === "one" ? sound : another(sound) });
    }
    const { segments, cues } = await transcribed(said);
    const labels = { other: "speaker_1", one: "speaker_2" };
    const speakers = cues.map(({ speaker }) => speaker);
    expect(speakers.filter((speaker, index) => speaker !== speakers[index - 1])).toEqual(
      order.map((who) => labels[who]),
    );
    for (const { start = 0, end = 0, speaker } of segments) {
      const timeOf = (wanted: Who) =>
        said
          .filter(({ who }) => who === wanted)
          .reduce((sum, each) => sum + Math.max(0, Math.min(end, endOf(each)) - Math.max(start, each.at)), 0);
      const [own, theirs] =
        speaker === labels.one ? (["one", "other"] as const) : (["other", "one"] as const);
      expect(timeOf(own)).toBeGreaterThan(timeOf(theirs));
    }
  },
  300_000,
);
