import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { linkSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FolderSettings } from "../../config/folder-fields.ts";
import { transaction } from "../../store/database.ts";
import { listAllTranscriptions } from "../../store/transcriptions.ts";
import { listFailedFiles, moveWatchedFile } from "../../store/watched-files.ts";
import { type FolderTest, openFolderTest } from "../../testing/kits/folder-kit.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import { checkFolderSettings } from "./rules.ts";

let t: FolderTest;
beforeEach(async () => {
  t = await openFolderTest({ config: { limits: {}, capabilities: { metadata: true } } });
});
afterEach(() => t.close());

const inRoot = (name: string) => join(t.root, name);
const speech = { seconds: 3, text: "नमस्ते" };
const json = (values: object) => JSON.stringify(values);
const moves = () => ({
  ...({ after: "move", move_to: inRoot("old"), failures: inRoot("bad") } as const),
  results: inRoot("out"),
});
const kept = () => listAllTranscriptions(t.app.database.store, { limit: 100 }).map((row) => row.metadata);

type Scenario = {
  title: string;
  settings: () => Partial<FolderSettings>;
  files: Record<string, string | typeof speech>;
  prepare?: () => void;
  counts: Record<string, number>;
  metadata: object[];
  names: string[];
};
const scenarios: Scenario[] = [
  {
    title: "a name gives metadata, and results have it",
    settings: () => ({ metadata_pattern: "{date}_{agent}.*" }),
    files: { "in/x/20261126_12.wav": speech },
    counts: { done: 1 },
    metadata: [{ date: "20261126", agent: "12" }],
    names: ["in/x", "in/x/20261126_12.json", "in/x/20261126_12.wav"],
  },
  {
    title: "a sidecar goes before the name, and is moved with its recording",
    settings: () => ({ ...moves(), metadata_expression: "^(?P<agent>\\d+)", sidecar: "json" }),
    files: { "in/x/12.wav": speech, "in/x/12.json": json({ agent: 13, queue: "बिक्री" }) },
    counts: { done: 1 },
    metadata: [{ agent: "13", queue: "बिक्री" }],
    names: ["in/x", "old/x", "old/x/12.json", "old/x/12.wav", "out/x", "out/x/12.json"],
  },
  {
    title:
      "a sidecar with the whole name goes first; the moved one gets the name of its recording, and replaces nothing",
    settings: () => ({ ...moves(), sidecar: "csv", metadata_fields: ["agent=Agent ID"] }),
    files: {
      "in/a.wav": speech,
      "in/a.wav.csv": "\uFEFFAgent ID;secret\n12;x\n",
      "in/a.csv": "Agent ID\n99\n",
      ...{ "old/a.wav": "another", "old/a-2.wav.csv": "another" },
    },
    counts: { done: 1 },
    metadata: [{ agent: "12" }],
    names: ["in/a.csv", "old/a-2.csv", "old/a-2.wav", "old/a-2.wav.csv", "old/a.wav", "out/a.json"],
  },
  {
    title: "a sidecar is deleted with its recording",
    settings: () => ({ ...moves(), after: "delete", sidecar: "json" }),
    files: { "in/a.wav": speech, "in/a.json": "{}" },
    counts: { done: 1 },
    metadata: [],
    names: ["out/a.json"],
  },
  {
    title: "a file waits for a sidecar that it needs, and another one does not",
    settings: () => ({ sidecar: "json", formats: ["txt"] }),
    files: { "in/a.wav": speech, "in/b.wav": speech, "in/b.json": json({ n: true }) },
    counts: { done: 1 },
    metadata: [{ n: "true" }],
    names: ["in/a.wav", "in/b.json", "in/b.txt", "in/b.wav"],
  },
  {
    title: "without a need a file is taken without its sidecar",
    settings: () => ({ sidecar: "json", sidecar_required: false, formats: ["txt"] }),
    files: { "in/a.wav": speech },
    counts: { done: 1 },
    metadata: [],
    names: ["in/a.txt", "in/a.wav"],
  },
  {
    title: "one CSV has a line for each recording, and a sidecar of its own goes before it",
    settings: () => ({
      ...moves(),
      sidecar: "json",
      metadata_csv: "calls.csv",
      metadata_fields: ["agent=Id"],
    }),
    files: {
      "in/calls.csv": 'file,Id,note\n./a.wav,12,"x, ""y"""\nx\\b.wav,13,\nc.wav,14,\n',
      ...{ "in/a.wav": speech, "in/x/b.wav": speech, "in/c.wav": speech, "in/c.json": json({ Id: 99 }) },
    },
    counts: { done: 3 },
    metadata: [{ agent: "99" }, { agent: "13" }, { agent: "12" }],
    names: [
      ...["in/calls.csv", "in/x", "old/a.wav", "old/c.json", "old/c.wav", "old/x", "old/x/b.wav"],
      ...["out/a.json", "out/c.json", "out/x", "out/x/b.json"],
    ],
  },
  {
    title:
      "a CSV in the recording's own folder goes before that of the watched folder, and neither is a recording",
    settings: () => ({ ...moves(), pattern: "*", sidecar: "csv", metadata_csv: "a.csv" }),
    files: {
      "in/a.csv": "file;n\nx/a.wav;1\nx/b.wav;2\n",
      "in/x/a.csv": "file;n\na.wav;3\n",
      ...{ "in/x/a.wav": speech, "in/x/b.wav": speech },
    },
    counts: { done: 2 },
    metadata: [{ n: "2" }, { n: "3" }],
    names: [
      ...["in/a.csv", "in/x", "in/x/a.csv", "old/x", "old/x/a.wav", "old/x/b.wav"],
      ...["out/x", "out/x/a.json", "out/x/b.json"],
    ],
  },
  {
    title: "a recording without a line waits, and lines that are wrong are their recordings' failures",
    settings: () => ({ ...moves(), metadata_csv: "calls.csv" }),
    files: {
      "in/calls.csv": "n,File\n1,a.wav\n2,b.wav\n3,b.wav\n4,c.wav,more\n",
      ...{ "in/a.wav": speech, "in/b.wav": speech, "in/c.wav": speech, "in/d.wav": speech },
    },
    counts: { done: 1, failed: 2 },
    metadata: [{ n: "1" }],
    names: [
      ...["in/calls.csv", "in/d.wav", "old/a.wav", "out/a.json"],
      ...["bad/b.wav", "bad/b.wav.reason.txt", "bad/c.wav", "bad/c.wav.reason.txt"],
    ],
  },
  {
    title: "a sidecar is no recording, whatever the pattern is",
    settings: () => ({ pattern: "*", sidecar: "csv", results: inRoot("out") }),
    files: { "in/a.wav": speech, "in/a.CSV": "x", "in/a.wav.csv": "agent\n1" },
    counts: { done: 1 },
    metadata: [{ agent: "1" }],
    names: ["in/a.CSV", "in/a.wav", "in/a.wav.csv", "out/a.json"],
  },
];

test.each(scenarios.map((scenario) => [scenario.title, scenario] as const))(
  "%s",
  async (_title, scenario) => {
    for (const [name, content] of Object.entries(scenario.files)) t.put(name, content);
    t.start([t.settings(scenario.settings())]);
    await t.until(() => Bun.deepEquals(t.counts(), scenario.counts), JSON.stringify(scenario.counts));
    await Bun.sleep(150);
    expect(t.counts()).toEqual(scenario.counts);
    const sorted = (list: unknown[]) => list.map((each) => JSON.stringify(each)).sort();
    expect(sorted(kept().filter((each) => each !== null))).toEqual(sorted(scenario.metadata));
    expect(t.names(".").filter((name) => name.includes("/"))).toEqual(scenario.names.sort());
  },
);

describe("what is wrong is the file's failure, which costs nothing:", () => {
  const inPlace = (make: (path: string) => void) => () => make(inRoot("in/1.json"));
  const wrong: [title: string, sidecar: string | (() => void), sentence: RegExp][] = [
    ["JSON that is cut", '{"a": ', /^The JSON beside it cannot be read\.$/],
    ["a list", "[1]", /^The JSON beside it is no object\.$/],
    [
      "too many names",
      json(Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, at]))),
      /16 names/,
    ],
    ["a control character", '{"a":"\\u0007"}', /"a" has a control character/],
    ["a large file", `{"a":"${"x".repeat(256 * 1024)}"}`, /^Its sidecar has more than 262144 bytes\.$/],
    [
      "bytes that are no text",
      inPlace((path) => writeFileSync(path, new Uint8Array([123, 255, 0]))),
      /UTF-8/,
    ],
    ["a link", inPlace((path) => symlinkSync("/etc/hostname", path)), /not a regular file/],
    ["a folder", inPlace((path) => mkdirSync(path)), /not a regular file/],
  ];
  test.each(wrong)("%s", async (_title, sidecar, sentence) => {
    t.put("in/1.wav", speech);
    if (typeof sidecar === "string") t.put("in/1.json", sidecar);
    else sidecar();
    t.start([t.settings({ sidecar: "json", failures: inRoot("bad"), formats: ["txt"] })]);
    await t.until(() => t.counts().failed === 1);
    expect(t.read("bad/1.wav.reason.txt").trim()).toMatch(sentence);
    expect(t.charges()).toBe(0);
    expect(kept()).toEqual([]);
  });

  test("a name that does not fit", async () => {
    t.put("in/call.wav", speech);
    t.start([t.settings({ metadata_pattern: "{agent}_{n}.wav", failures: inRoot("bad") })]);
    await t.until(() => t.counts().failed === 1);
    expect(t.read("bad/call.wav.reason.txt")).toBe("Its name does not fit {agent}_{n}.wav.\n");
  });
});

test("a failed file goes away with its sidecar, and both come back", async () => {
  t.put("in/a.wav", speech);
  t.put("in/a.json", "[]");
  const { service } = t.start([t.settings({ ...moves(), sidecar: "json" })]);
  await t.until(() => t.counts().failed === 1);
  expect(t.names("bad")).toEqual(["a.json", "a.wav", "a.wav.reason.txt"]);
  t.put("bad/a.json", json({ agent: "12" }));
  const { store } = t.app.database;
  transaction(store, (tx) => {
    for (const row of listFailedFiles(tx, 10)) moveWatchedFile(tx, row, "retrying", t.clock.now());
  });
  service.onOutsideChange();
  await t.until(() => t.counts().done === 1);
  expect([t.names("bad"), t.names("old"), kept()]).toEqual([[], ["a.json", "a.wav"], [{ agent: "12" }]]);
});

test("the status says which files wait for a sidecar, and one that is still written is waited for", async () => {
  t.put("in/a.wav", speech);
  const { service } = t.start([t.settings({ sidecar: "json", formats: ["txt"], rest_seconds: 0.3 })]);
  await t.until(() => service.status()[0]?.without_sidecar === 1);
  expect(service.status()[0]).toMatchObject({ without_sidecar_files: ["a.wav"], resting: 0, waiting: 0 });
  for (let at = 1; at <= 8; at++) {
    t.put("in/a.json", json({ agent: "12" }).slice(0, at));
    await Bun.sleep(60);
  }
  expect(t.counts()).toEqual({});
  t.put("in/a.json", json({ agent: "12" }));
  await t.until(() => t.counts().done === 1);
  expect(kept()).toEqual([{ agent: "12" }]);
  expect(service.status()[0]?.without_sidecar).toBe(0);
});

describe("one CSV for a folder", () => {
  const settings = { metadata_csv: "calls.csv", formats: ["txt"], rest_seconds: 0.4 };

  test("grows while its recordings wait; half a line is not read", async () => {
    t.put("in/a.wav", speech);
    t.put("in/b.wav", speech);
    const { service } = t.start([t.settings(settings)]);
    await t.until(() => service.status()[0]?.without_sidecar === 2);
    const lines = "file,agent\na.wav,12\nb.wav,345";
    for (let at = 1; at <= lines.length; at += 3) {
      t.put("in/calls.csv", lines.slice(0, at));
      await Bun.sleep(30);
    }
    t.put("in/calls.csv", lines);
    await t.until(() => t.counts().done === 2);
    expect(kept()).toEqual([{ agent: "345" }, { agent: "12" }]);
  });

  const manyLines = (count: number) =>
    `file,n\n${Array.from({ length: count }, (_, n) => `${n}.wav,${n}`).join("\n")}\n`;
  const unreadable: [title: string, content: string | Uint8Array, reason: RegExp][] = [
    [
      "has no column for the recordings",
      "agent,n\na.wav,1\n",
      /calls\.csv: .*none of its columns is called file/,
    ],
    [
      "has a quote without end",
      'file,n\nb.wav,1\na.wav,"98200\n',
      /calls\.csv: only 2 of its lines.*[Qq]uote/,
    ],
    ["has too many lines", manyLines(100_001), /more than 100000 lines/],
    ["has too many bytes", "x".repeat(8 * 1024 * 1024 + 1), /more than 8388608 bytes/],
    ["is no text", new Uint8Array([102, 255, 0]), /UTF-8/],
  ];
  test.each(unreadable)(
    "that %s keeps its recordings waiting, and they are taken once it is right",
    async (_, content, reason) => {
      t.put("in/a.wav", speech);
      writeFileSync(inRoot("in/calls.csv"), content);
      const { service } = t.start([t.settings(settings)]);
      await t.until(() => service.status()[0]?.unusable === 1);
      expect(service.status()[0]?.unusable_files).toEqual([
        { name: "a.wav", reason: expect.stringMatching(reason) },
      ]);
      expect(JSON.stringify(service.status())).not.toContain("98200");
      t.put("in/calls.csv", "file,n\na.wav,1\n");
      await t.until(() => t.counts().done === 1);
      expect(kept()).toEqual([{ n: "1" }]);
    },
  );

  test("that is a link is not read", async () => {
    t.put("in/a.wav", speech);
    t.put("other.csv", "file,n\na.wav,1\n");
    symlinkSync(inRoot("other.csv"), inRoot("in/calls.csv"));
    const { service } = t.start([t.settings(settings)]);
    await t.until(() => service.status()[0]?.unusable === 1);
    expect(service.status()[0]?.unusable_files[0]?.reason).toMatch(/links are not followed/);
    expect(t.counts()).toEqual({});
  });

  test("has lines for ten thousand recordings", async () => {
    t.put("in/9999.wav", speech);
    t.put("in/calls.csv", manyLines(10_000));
    t.start([t.settings(settings)]);
    await t.until(() => t.counts().done === 1);
    expect(kept()).toEqual([{ n: "9999" }]);
  });
});

test("a kill between the moves of a recording and of its sidecar leaves neither", async () => {
  t.put("in/a.wav", speech);
  t.put("in/a.json", json({ agent: "12" }));
  const folder = t.settings({ ...moves(), sidecar: "json" });
  const release = t.engine.hold();
  const { service } = t.start([folder]);
  await t.until(() => t.counts().accepted === 1);
  await service.stop();
  release();
  // The recording was moved, and the sidecar has both names.
  linkSync(inRoot("in/a.wav"), inRoot("old/a.wav"));
  rmSync(inRoot("in/a.wav"));
  linkSync(inRoot("in/a.json"), inRoot("old/a.json"));
  t.app.database.sqlite.run("UPDATE watched_files SET moved_to = ?", [inRoot("old/a.wav")]);
  t.start([folder]);
  await t.until(() => t.counts().done === 1);
  expect([t.names("in"), t.names("old"), t.charges()]).toEqual([[], ["a.json", "a.wav"], 1]);
});

test("the sidecar of a new version stays", async () => {
  t.put("in/a.wav", speech);
  t.put("in/a.json", json({ agent: "12" }));
  const folder = t.settings({ ...moves(), sidecar: "json" });
  const release = t.engine.hold();
  const { service } = t.start([folder]);
  await t.until(() => t.counts().accepted === 1);
  writeFileSync(inRoot("in/a.wav"), scriptedAudio({ seconds: 5, text: "दो" }));
  t.put("in/a.json", json({ agent: "13" }));
  release();
  await t.until(() => t.counts().done === 2);
  await service.stop();
  expect(kept().toReversed()).toEqual([{ agent: "12" }, { agent: "13" }]);
  expect([t.names("in"), t.names("old")]).toEqual([[], ["a.json", "a.wav"]]);
});

describe("settings that are refused:", () => {
  const refused: [settings: Partial<FolderSettings>, metadata: boolean, sentence: RegExp][] = [
    [{ metadata_pattern: "{a}" }, false, /need capabilities\.metadata = true/],
    [{ sidecar: "csv" }, false, /need capabilities\.metadata = true/],
    [{ metadata_pattern: "{a}", metadata_expression: "(?<a>.)" }, true, /exclude each other/],
    [{ metadata_pattern: "call.wav" }, true, /: metadata_pattern names nothing, as \{agent\} does/],
    [{ metadata_expression: "(" }, true, /: metadata_expression is none of RE2/],
    [{ metadata_csv: "calls.csv" }, false, /need capabilities\.metadata = true/],
    [{ metadata_fields: ["a=b"] }, true, /metadata_fields needs sidecar or metadata_csv/],
    [{ sidecar: "csv", metadata_fields: ["a=b", "a=c"] }, true, /metadata_fields has the name a twice/],
    [{ sidecar: "json" }, true, /results as json need results/],
  ];
  test.each(refused)("%j with capabilities.metadata = %p", (settings, metadata, sentence) => {
    const { config } = t;
    const changed = {
      ...config,
      capabilities: { ...config.capabilities, metadata },
      intake: { ...config.intake, folder: [t.settings(settings)] },
    };
    expect(() => checkFolderSettings(changed)).toThrow(sentence);
  });
});
