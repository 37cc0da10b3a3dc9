import { describe, expect, test } from "bun:test";
import { type FileMetadataSettings, fileMetadataRule, metadataOf } from "./file-metadata.ts";
import type { Metadata } from "./metadata.ts";

const CALL = "2026-11-26_0930_agent12_9820012345.wav";
const OF_CALL = { date: "2026-11-26", time: "0930", agent: "agent12", caller: "9820012345" };
const PATTERN = "{date}_{time}_{agent}_{caller}.wav";

/** What becomes of a file under some settings. */
function read(settings: FileMetadataSettings, fileName: string, sidecar: string | null = null) {
  const checked = fileMetadataRule(settings);
  return "problem" in checked ? checked : metadataOf(fileName, sidecar, checked.rule);
}

const NAMES: [title: string, settings: FileMetadataSettings, fileName: string, metadata: Metadata][] = [
  ["a pattern", { pattern: PATTERN }, CALL, OF_CALL],
  ["capital letters of the extension", { pattern: PATTERN }, CALL.replace(".wav", ".WAV"), OF_CALL],
  [
    "fields of a width",
    { pattern: "{date:8}{time:6}-{agent}.*" },
    "20261126093012-7.mp3",
    { date: "20261126", time: "093012", agent: "7" },
  ],
  ["a star", { pattern: "*_{caller}.wav" }, "x_y_98.wav", { caller: "y_98" }],
  [
    "text with signs of expressions",
    { pattern: "[q] (a+b) {agent}^{queue}.wav" },
    "[q] (a+b) 12^x.y.wav",
    {},
  ],
  [
    "a field with a bracket behind it",
    { pattern: "call[{agent}]{n}.wav" },
    "call[12]3.wav",
    { agent: "12", n: "3" },
  ],
  ["letters of India", { pattern: "{नाम}.wav" }, "x.wav", {}],
  [
    "an expression",
    { expression: String.raw`^(?<date>[\d-]+)_(?P<time>\d{4})_agent(?<agent>\d+)` },
    CALL,
    { date: "2026-11-26", time: "0930", agent: "12" },
  ],
  ["a group without text", { expression: "^a(?<x>b)?(?<y>.)" }, "ac", { y: "c" }],
  ["nothing", {}, CALL, {}],
];
const EXPECTED_PROBLEMS: Record<string, string> = {
  "text with signs of expressions": "does not fit",
  "letters of India": "is not a name",
};
test.each(NAMES)("names: %s", (title, settings, fileName, metadata) => {
  const problem = EXPECTED_PROBLEMS[title];
  const outcome = read(settings, fileName);
  if (problem === undefined) expect(outcome).toEqual({ metadata });
  else expect(outcome).toEqual({ problem: expect.stringContaining(problem) });
});

const JSON_FIELDS = { agent: "Agent ID", queue: "queue" };
const CSV = 'file,agent,caller\na.wav,12,98200\nb.wav,13,"98,201"\n';
const BESIDE: [
  title: string,
  settings: FileMetadataSettings,
  fileName: string,
  text: string | null,
  metadata: Metadata,
][] = [
  [
    "JSON",
    { sidecar: "json" },
    "a.wav",
    '{"agent":12,"is_vip":true,"note":null,"legs":[1],"queue":"sales"}',
    { agent: "12", is_vip: "true", queue: "sales" },
  ],
  [
    "named keys of JSON",
    { sidecar: "json", fields: JSON_FIELDS },
    "a.wav",
    '{"Agent ID":"7","other":"x"}',
    { agent: "7" },
  ],
  [
    "a name of JavaScript",
    { sidecar: "json" },
    "a.wav",
    '{"__proto__":"x"}',
    Object.fromEntries([["__proto__", "x"]]),
  ],
  [
    "CSV of one recording",
    { sidecar: "csv" },
    "z.wav",
    "agent;caller\r\n12;98\r\n",
    { agent: "12", caller: "98" },
  ],
  [
    "JSON with a number of many digits",
    { sidecar: "json" },
    "a.wav",
    '{"call":12345678901234567890,"share":0.50,"caller":"0098"}',
    { call: "12345678901234567890", share: "0.50", caller: "0098" },
  ],
  [
    "CSV with commas in its values",
    { sidecar: "csv" },
    "z.wav",
    "\uFEFFagent;note\r\n12;late, angry\r\n",
    { agent: "12", note: "late, angry" },
  ],
  ["CSV with tabs", { sidecar: "csv" }, "z.wav", "agent\tnote\n12\ta;b,c", { agent: "12", note: "a;b,c" }],
  ["CSV of several", { sidecar: "csv" }, "b.wav", CSV, { agent: "13", caller: "98,201" }],
  [
    "both: the file beside goes first",
    { sidecar: "json", pattern: PATTERN },
    CALL,
    '{"agent":"99"}',
    { ...OF_CALL, agent: "99" },
  ],
  ["none beside", { sidecar: "json", pattern: PATTERN }, CALL, null, OF_CALL],
  ["one that no setting names", { pattern: PATTERN }, CALL, "garbage", OF_CALL],
];
test.each(BESIDE)("beside: %s", (_, settings, fileName, text, metadata) => {
  expect(read(settings, fileName, text)).toEqual({ metadata });
});

const many = JSON.stringify(Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, "v"])));
const PROBLEMS: [settings: FileMetadataSettings, fileName: string, text: string | null, problem: string][] = [
  [{ pattern: PATTERN }, "voice.wav", null, `its name does not fit ${PATTERN}`],
  [{ pattern: PATTERN }, `${"a".repeat(2000)}.wav`, null, "does not fit"],
  [{ pattern: "x.wav" }, "x.wav", null, "pattern names nothing, as {agent} does"],
  [
    { pattern: "{a}{b}.wav" },
    "x.wav",
    null,
    "pattern: {a} and the field behind it have nothing between them",
  ],
  [{ pattern: "{a:0}.wav" }, "x.wav", null, "pattern: {a:0} has no width of 1 to 999 characters"],
  [{ pattern: "{a}_{a}.wav" }, "x.wav", null, "pattern has the name a twice"],
  [{ pattern: "{a}_}.wav" }, "x.wav", null, "pattern has a brace that belongs to no field"],
  [{ pattern: "{an agent}.wav" }, "x.wav", null, 'pattern: "an agent" is not a name'],
  [{ pattern: "{a}", expression: "(?<a>.)" }, "x.wav", null, "pattern and expression exclude each other"],
  [{ expression: "(?<a>.)\\1" }, "x.wav", null, "expression is none of RE2"],
  [{ expression: "(?<a>" }, "x.wav", null, "expression is none of RE2"],
  [{ expression: "(.)" }, "x.wav", null, "expression names nothing, as (?<agent>…) does"],
  [{ expression: "x".repeat(1001) }, "x.wav", null, "expression has more than 1000 characters"],
  [{ sidecar: "json", fields: { "a b": "c" } }, "x.wav", "{}", 'fields: "a b" is not a name'],
  [{ sidecar: "json" }, "x.wav", "{", "the JSON beside it cannot be read"],
  [{ sidecar: "json" }, "x.wav", "[]", "the JSON beside it is no object"],
  [{ sidecar: "json" }, "x.wav", many, "the metadata has more than 16 names"],
  [{ sidecar: "json" }, "x.wav", '{"Agent ID":1}', 'the metadata "Agent ID" is not a name'],
  [
    { sidecar: "json" },
    "x.wav",
    `{"a":"${"x".repeat(501)}"}`,
    'the metadata "a" has more than 500 characters',
  ],
  [
    { sidecar: "json" },
    "x.wav",
    '{"a":"\\n"}',
    'the metadata "a" has a control character, or half of a character',
  ],
  [
    { sidecar: "json" },
    "x.wav",
    '{"a":"\\ud83d"}',
    'the metadata "a" has a control character, or half of a character',
  ],
  [
    { sidecar: "json" },
    "x.wav",
    `"${"x".repeat(300_000)}"`,
    "the json beside it has more than 262144 characters",
  ],
  [{ sidecar: "csv" }, "x.wav", CSV, "the CSV beside it has 0 lines with its name; it needs one"],
  [
    { sidecar: "csv" },
    "x.wav",
    "a,b\n1,2\n3,4\n",
    "the CSV beside it has 2 lines below the names; it needs one",
  ],
  [{ sidecar: "csv" }, "x.wav", "a,b\n1\n", "the CSV beside it cannot be read"],
  [{ sidecar: "csv" }, "x.wav", `${",".repeat(60_000)}\n`, "the CSV beside it has more than 50000 values"],
  [{ sidecar: "csv" }, "x.wav", "a\n".repeat(60_000), "the CSV beside it has more than 50000 values"],
  [{ sidecar: "csv" }, "x.wav", "", "the CSV beside it has 0 lines below the names; it needs one"],
];
test.each(PROBLEMS)("%j of %s", (settings, fileName, text, problem) => {
  expect(read(settings, fileName, text)).toEqual({ problem: expect.stringContaining(problem) });
});

describe("expressions that cost other engines hours", () => {
  test.each(["^(?<a>(x+x+)+y)$", "^(?<a>(x|x)*y)$", "(?<a>(.*)*(.*)*=)"])("%s", (expression) => {
    const begun = performance.now();
    expect(read({ expression }, `${"x".repeat(1000)}.wav`)).toEqual({ problem: expect.any(String) });
    expect(performance.now() - begun).toBeLessThan(2_000);
  });
  test("a pattern of many fields", () => {
    const fields = Array.from({ length: 16 }, (_, at) => `*{k${at}}`).join("_");
    const begun = performance.now();
    expect(read({ pattern: `${fields}!` }, "_".repeat(1000))).toEqual({ problem: expect.any(String) });
    expect(performance.now() - begun).toBeLessThan(2_000);
  });
});
