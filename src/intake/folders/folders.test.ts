import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { FolderSettings } from "../../config/folder-fields.ts";
import { listAudit } from "../../store/audit-log.ts";
import { transaction } from "../../store/database.ts";
import { listFailedFiles, moveWatchedFile } from "../../store/watched-files.ts";
import { type FolderTest, openFolderTest } from "../../testing/kits/folder-kit.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import { checkFolderSettings } from "./rules.ts";

let t: FolderTest;
beforeEach(async () => {
  t = await openFolderTest();
});
afterEach(() => t.close());

const inRoot = (name: string) => join(t.root, name);

type Scenario = {
  title: string;
  settings?: () => Partial<FolderSettings>;
  files: Record<string, string | Parameters<typeof scriptedAudio>[0]>;
  prepare?: () => void;
  counts: Record<string, number>;
  names: string[];
};

const speech = { seconds: 3, text: "नमस्ते" };
const scenarios: Scenario[] = [
  {
    title: "results are beside the recording, in its formats",
    settings: () => ({ formats: ["json", "srt", "vtt", "txt"] }),
    files: { "in/day/a.wav": speech },
    counts: { done: 1 },
    names: ["in", "in/day", ...["json", "srt", "txt", "vtt", "wav"].map((each) => `in/day/a.${each}`)],
  },
  {
    title: "results in a folder of their own keep their subfolders",
    settings: () => ({ results: inRoot("out"), formats: ["txt"] }),
    files: { "in/x/a.wav": speech, "in/b.wav": speech },
    counts: { done: 2 },
    names: ["in", "in/b.wav", "in/x", "in/x/a.wav", "out", "out/b.txt", "out/x", "out/x/a.txt"],
  },
  {
    title: "two recordings with one name get results with different names, and a foreign file is kept",
    settings: () => ({ formats: ["txt"], at_once: 1 }),
    files: {
      "in/a.wav": speech,
      "in/a.mp3": { ...speech, text: "दो" },
      "in/b.wav": speech,
      "in/b.txt": "notes",
    },
    prepare: () => utimesSync(inRoot("in/a.wav"), 1_000_000, 1_000_000),
    counts: { done: 3 },
    names: ["in", "in/a.mp3", "in/a.mp3.txt", "in/a.txt", "in/a.wav", "in/b.txt", "in/b.wav", "in/b.wav.txt"],
  },
  {
    title: "files are moved away, and replace nothing there",
    settings: () => ({ after: "move", move_to: inRoot("old"), results: inRoot("out"), formats: ["txt"] }),
    files: { "in/a.wav": speech, "old/a.wav": "another" },
    counts: { done: 1 },
    names: ["in", "old", "old/a-2.wav", "old/a.wav", "out", "out/a.txt"],
  },
  {
    title: "files are deleted",
    settings: () => ({ after: "delete", results: inRoot("out"), formats: ["txt"] }),
    files: { "in/a.wav": speech },
    counts: { done: 1 },
    names: ["in", "out", "out/a.txt"],
  },
  {
    title: "what cannot be decoded goes into the folder of failures, with its reason",
    settings: () => ({ after: "move", move_to: inRoot("old"), failures: inRoot("bad") }),
    files: { "in/a.wav": "no sound" },
    counts: { failed: 1 },
    names: ["bad", "bad/a.wav", "bad/a.wav.reason.txt", "in", "old"],
  },
  {
    title: "with after = keep only the reason goes there",
    settings: () => ({ failures: inRoot("bad") }),
    files: { "in/a.wav": { ...speech, trouble: "refuse" } },
    counts: { failed: 1 },
    names: ["bad", "bad/a.wav.reason.txt", "in", "in/a.wav"],
  },
  {
    title: "a file waits for its marker, which goes with it",
    settings: () => ({ complete: "marker", after: "delete", results: inRoot("out"), formats: ["txt"] }),
    files: { "in/a.wav": speech, "in/a.wav.done": "", "in/b.wav": speech },
    counts: { done: 1 },
    names: ["in", "in/b.wav", "out", "out/a.txt"],
  },
  {
    title: "temporary names, other names, links and pipes are left alone",
    settings: () => ({ pattern: "*.wav", results: inRoot("out"), formats: ["txt"] }),
    files: {
      "in/a.wav": speech,
      "in/.b.wav": speech,
      "in/c.wav.part": speech,
      "in/d.mp3": speech,
      "else.wav": speech,
    },
    prepare() {
      symlinkSync(inRoot("else.wav"), inRoot("in/link.wav"));
      mkdirSync(inRoot("other"));
      writeFileSync(inRoot("other/e.wav"), scriptedAudio(speech));
      symlinkSync(inRoot("other"), inRoot("in/linked"));
      execFileSync("mkfifo", [inRoot("in/pipe.wav")]);
    },
    counts: { done: 1 },
    names: [
      ...["else.wav", "in", "in/.b.wav", "in/a.wav", "in/c.wav.part", "in/d.mp3", "in/link.wav"],
      ...["in/linked", "in/linked/e.wav", "in/pipe.wav", "other", "other/e.wav", "out", "out/a.txt"],
    ],
  },
  {
    title: "a pattern for all names takes no results",
    settings: () => ({ pattern: "*", formats: ["txt"] }),
    files: { "in/a.wav": speech, "in/b.json": speech, "in/notes.TXT": speech },
    counts: { done: 1 },
    names: ["in", "in/a.txt", "in/a.wav", "in/b.json", "in/notes.TXT"],
  },
  {
    title: "a name with a new line is as good as any",
    settings: () => ({ formats: ["txt"] }),
    files: { "in/a\nb.wav": speech },
    counts: { done: 1 },
    names: ["in", "in/a\nb.txt", "in/a\nb.wav"],
  },
  {
    title: "a pattern with a slash is for the path, and subfolders can be left out",
    settings: () => ({ pattern: "hi/*.wav", formats: ["txt"] }),
    files: { "in/hi/a.wav": speech, "in/ta/a.wav": speech },
    counts: { done: 1 },
    names: ["in", "in/hi", "in/hi/a.txt", "in/hi/a.wav", "in/ta", "in/ta/a.wav"],
  },
  {
    title: "nothing is taken from folders into which the server writes",
    settings: () => ({
      after: "move",
      move_to: inRoot("in/old"),
      failures: inRoot("in/bad"),
      formats: ["txt"],
    }),
    files: { "in/a.wav": speech, "in/old/b.wav": speech, "in/bad/c.wav": speech },
    counts: { done: 1 },
    names: ["in", "in/a.txt", "in/bad", "in/bad/c.wav", "in/old", "in/old/a.wav", "in/old/b.wav"],
  },
];

test.each(scenarios.map((scenario) => [scenario.title, scenario] as const))(
  "%s",
  async (_title, scenario) => {
    for (const [name, content] of Object.entries(scenario.files)) t.put(name, content);
    scenario.prepare?.();
    t.start([t.settings(scenario.settings?.())]);
    await t.until(() => Bun.deepEquals(t.counts(), scenario.counts), JSON.stringify(scenario.counts));
    // Nothing more happens in some further looks.
    await Bun.sleep(150);
    expect(t.counts()).toEqual(scenario.counts);
    expect(t.names(".")).toEqual(scenario.names.sort());
    expect(t.charges()).toBe(scenario.counts.done ?? 0);
  },
);

test("the reason of a failed file says what is wrong", async () => {
  t.put("in/a.wav", "no sound");
  t.start([t.settings({ failures: inRoot("bad") })]);
  await t.until(() => t.counts().failed === 1);
  expect(t.read("bad/a.wav.reason.txt")).toMatch(/^.*[a-z].*\.\n$/);
  expect(t.charges()).toBe(0);
});

test("the deletion of a file is in the audit log, without its name", async () => {
  t.put("in/secret-9820012345.wav");
  t.start([t.settings({ after: "delete", results: inRoot("out") })]);
  await t.until(() => t.counts().done === 1);
  const acts = listAudit(t.app.database.store, {}, { limit: 100 }).data;
  const [deletion] = acts.filter(({ action }) => action === "watched_file.delete");
  expect(deletion).toMatchObject({ source: "server", actor: "watched folder", via: inRoot("in") });
  expect(JSON.stringify(deletion?.after)).toMatch(/"sha256":"[0-9a-f]{64}"|\\"sha256\\":\\"[0-9a-f]{64}/);
  expect(JSON.stringify(acts)).not.toContain("9820012345");
});

describe("a file that changes", () => {
  test("is taken once it rests, whole", async () => {
    const whole = Buffer.from(scriptedAudio({ seconds: 3, text: "पूरा" }));
    mkdirSync(inRoot("in"));
    t.start([t.settings({ rest_seconds: 0.3, formats: ["txt"] })]);
    for (let at = 8; at <= whole.length; at += 8) {
      writeFileSync(inRoot("in/a.wav"), whole.subarray(0, at));
      await Bun.sleep(20);
    }
    writeFileSync(inRoot("in/a.wav"), whole);
    await t.until(() => t.counts().done === 1);
    expect(t.read("in/a.txt")).toContain("पूरा");
    expect(t.counts()).toEqual({ done: 1 });
  });

  test("later, is another version: its results replace those of the earlier one", async () => {
    t.put("in/a.wav", { seconds: 3, text: "एक" });
    t.start([t.settings({ formats: ["txt"] })]);
    await t.until(() => t.counts().done === 1);
    t.put("in/a.wav", { seconds: 4, text: "दोबारा" });
    await t.until(() => t.counts().done === 2);
    expect(t.read("in/a.txt")).toContain("दोबारा");
    expect(t.charges()).toBe(2);
  });

  test("only in its time is not charged again, and its results are written again", async () => {
    t.put("in/a.wav");
    t.start([t.settings({ formats: ["txt"] })]);
    await t.until(() => t.counts().done === 1);
    rmSync(inRoot("in/a.txt"));
    utimesSync(inRoot("in/a.wav"), 1_000_000, 2_000_000);
    await t.until(() => t.counts().done === 2);
    expect(t.has("in/a.txt")).toBe(true);
    expect(t.charges()).toBe(1);
  });

  test("after it was read, is not moved or deleted in the place of what was read", async () => {
    const release = t.engine.hold();
    t.put("in/a.wav");
    t.start([t.settings({ after: "delete", results: inRoot("out"), formats: ["txt"] })]);
    await t.until(() => t.counts().accepted === 1);
    t.put("in/a.wav", { seconds: 4, text: "नया" });
    release();
    await t.until(() => t.counts().done === 2);
    expect(t.names("out")).toEqual(["a.txt"]);
    expect(t.read("out/a.txt")).toContain("नया");
    expect(t.names("in")).toEqual([]);
  });

  test("while it is copied, is forgotten and taken again whole", async () => {
    let changed = false;
    const { uploads } = t.app.services;
    const receive: typeof uploads.receive = (id, receiving) => {
      if (!changed) t.put("in/a.wav", { seconds: 4, text: "दूसरा" });
      changed = true;
      return uploads.receive(id, receiving);
    };
    t.put("in/a.wav", { seconds: 3, text: "पहला" });
    t.start([t.settings({ formats: ["txt"] })], { uploads: { ...uploads, receive } });
    await t.until(() => t.counts().done === 1);
    expect(t.read("in/a.txt")).toContain("दूसरा");
    expect(t.counts()).toEqual({ done: 1 });
    expect(t.charges()).toBe(1);
  });

  test("its name while it is transcribed, still gets its results", async () => {
    const release = t.engine.hold();
    t.put("in/a.wav");
    t.start([t.settings({ after: "delete", results: inRoot("out"), formats: ["txt"], pattern: "a.wav" })]);
    await t.until(() => t.counts().accepted === 1);
    renameSync(inRoot("in/a.wav"), inRoot("in/other.wav"));
    release();
    await t.until(() => t.counts().done === 1);
    expect(t.names("out")).toEqual(["a.txt"]);
    expect(t.names("in")).toEqual(["other.wav"]);
    const acts = listAudit(t.app.database.store, {}, { limit: 100 }).data;
    expect(acts.filter(({ action }) => action === "watched_file.delete")).toEqual([]);
  });
});

describe("what is in the way", () => {
  test("without credit files wait, and are charged once when there is some", async () => {
    await t.close();
    t = await openFolderTest({ creditPaise: 0 });
    t.put("in/a.wav");
    const { service } = t.start([t.settings({ formats: ["txt"] })]);
    await t.until(() => service.status()[0]?.files[0]?.waits_for?.includes("credit") ?? false);
    t.app.services.credit.grant({ organizationId: t.organization.id, amountPaise: 1000 });
    await t.until(() => t.counts().done === 1);
    expect(t.charges()).toBe(1);
  });

  test("a folder of results that cannot be written is waited for; the work is not repeated", async () => {
    t.put("in/a.wav");
    const { service } = t.start([t.settings({ results: inRoot("out"), formats: ["txt"] })]);
    rmSync(inRoot("out"), { recursive: true });
    writeFileSync(inRoot("out"), "in the way");
    await t.until(() => service.status()[0]?.files[0]?.waits_for?.includes("out") ?? false);
    expect(t.charges()).toBe(1);
    rmSync(inRoot("out"));
    mkdirSync(inRoot("out"));
    await t.until(() => t.counts().done === 1);
    expect(t.charges()).toBe(1);
    expect(t.names("out")).toEqual(["a.txt"]);
  });

  test.each([
    ["an unknown project", () => ({ project: "nowhere" }), "there is no project nowhere"],
    ["a language that no model has", () => ({ language: "xx" }), "language"],
    ["no language at all", () => ({ language: "" }), "no language"],
    ["an unknown model", () => ({ model: "unknown" }), "model"],
  ] as const)("with %s nothing is taken, and the status says so", async (_what, settings, sentence) => {
    t.put("in/a.wav");
    const { service, config } = t.start([t.settings(settings())]);
    await t.until(() => service.status()[0]?.problem?.includes(sentence) ?? false);
    await Bun.sleep(100);
    expect(t.counts()).toEqual({});
    expect(service.numbers()).toMatchObject({ folders: 1, problems: 1 });
    // A reload with the correct settings helps without a restart.
    Object.assign(config.intake, { folder: [t.settings({ formats: ["txt"] })] });
    service.onOutsideChange();
    await t.until(() => t.counts().done === 1);
    expect(service.status()[0]?.problem).toBeNull();
  });

  test("a disabled organization's files wait", async () => {
    t.put("in/a.wav");
    t.accounts.disableOrganization(t.organization.id);
    const { service } = t.start([t.settings()]);
    await t.until(() => service.status()[0]?.problem?.includes("disabled") ?? false);
    expect(t.counts()).toEqual({});
    t.accounts.enableOrganization(t.organization.id);
    await t.until(() => t.counts().done === 1);
  });

  test("a folder that is gone is a problem, and comes back", async () => {
    t.put("in/a.wav");
    const { service } = t.start([t.settings()]);
    await t.until(() => t.counts().done === 1);
    renameSync(inRoot("in"), inRoot("away"));
    await t.until(() => service.status()[0]?.problem?.includes("ENOENT") ?? false);
    // An empty folder in its place is a disk that is not mounted.
    mkdirSync(inRoot("in"));
    await t.until(() => service.status()[0]?.problem?.includes("mounted") ?? false);
    rmSync(inRoot("in"), { recursive: true });
    renameSync(inRoot("away"), inRoot("in"));
    t.put("in/b.wav");
    await t.until(() => t.counts().done === 2);
    expect(service.status()[0]?.problem).toBeNull();
  });

  test("a file that is not there because its disk is not mounted is moved once it is back", async () => {
    const release = t.engine.hold();
    t.put("in/a.wav");
    const { service } = t.start([
      t.settings({ after: "move", move_to: inRoot("old"), results: inRoot("out") }),
    ]);
    await t.until(() => t.counts().accepted === 1);
    renameSync(inRoot("in"), inRoot("away"));
    mkdirSync(inRoot("in"));
    release();
    await t.until(() => service.status()[0]?.files[0]?.waits_for?.includes("mounted") ?? false);
    rmSync(inRoot("in"), { recursive: true });
    renameSync(inRoot("away"), inRoot("in"));
    await t.until(() => t.counts().done === 1);
    expect(t.names("old")).toEqual(["a.wav"]);
  });

  test("a file with a name that is not UTF-8 is named in the status, and others are taken", async () => {
    t.put("in/ok.wav");
    execFileSync("sh", ["-c", `touch "${inRoot("in")}/$(printf 'a\\377b').wav"`]);
    const { service } = t.start([t.settings()]);
    await t.until(() => t.counts().done === 1);
    await t.until(() => service.status()[0]?.unusable === 1);
    expect(service.status()[0]?.unusable_files[0]?.reason).toContain("UTF-8");
  });

  test.skipIf(process.geteuid?.() === 0)(
    "a file that may not be read is named in the status (needs a user who is not root)",
    async () => {
      t.put("in/a.wav");
      chmodSync(inRoot("in/a.wav"), 0);
      const { service } = t.start([t.settings()]);
      await t.until(() => service.status()[0]?.unusable === 1);
      chmodSync(inRoot("in/a.wav"), 0o600);
      await t.until(() => t.counts().done === 1);
    },
  );
});

test("at most at_once files are in hand", async () => {
  for (let at = 0; at < 12; at++) t.put(`in/${at}.wav`);
  const release = t.engine.hold();
  const { service } = t.start([t.settings({ at_once: 3 })]);
  await t.until(() => t.counts().accepted === 3);
  await Bun.sleep(200);
  expect(t.counts()).toEqual({ accepted: 3 });
  expect(service.numbers()).toMatchObject({ inHand: 3, waiting: 9, done: 0, failed: 0 });
  release();
  await t.until(() => t.counts().done === 12);
  expect(t.charges()).toBe(12);
});

test("patterns of one folder choose the language of each file", async () => {
  t.put("in/a_hi.wav");
  t.put("in/b_en.wav");
  t.start([
    t.settings({ pattern: "*_en.wav", language: "en", results: inRoot("out") }),
    t.settings({ pattern: "*.wav", language: "hi", results: inRoot("out") }),
  ]);
  await t.until(() => t.counts().done === 2);
  const { data } = t.app.services.transcriptions.list(
    { ...owner(), keyId: "", scopes: new Set() },
    { limit: 10 },
  );
  expect(data.map(({ language }) => language).sort()).toEqual(["en", "hi"]);
});

const owner = () => ({ projectId: t.project.id, organizationId: t.organization.id });

test("a failed file is put back and taken again when an admin asks for it", async () => {
  t.put("in/a.wav", "no sound");
  const settings = t.settings({
    after: "move",
    move_to: inRoot("old"),
    failures: inRoot("bad"),
    formats: ["txt"],
  });
  const { service } = t.start([settings]);
  await t.until(() => t.counts().failed === 1);
  writeFileSync(inRoot("bad/a.wav"), scriptedAudio(speech));
  const { store } = t.app.database;
  transaction(store, (tx) => {
    for (const row of listFailedFiles(tx, 10)) moveWatchedFile(tx, row, "retrying", t.clock.now());
  });
  service.onOutsideChange();
  await t.until(() => t.counts().done === 1);
  expect(t.names(".").filter((name) => name.includes("/"))).toEqual(["in/a.txt", "old/a.wav"]);
});

describe("what is remembered of a file that has ended long ago", () => {
  const moved = () => ({ after: "move" as const, move_to: inRoot("old"), failures: inRoot("bad") });
  const SCENARIOS: {
    title: string;
    settings?: () => Partial<FolderSettings>;
    sound?: string;
    counts: Record<string, number>;
    change?: () => void;
    forgotten: number;
  }[] = [
    { title: "stays while it lies there", counts: { done: 1 }, forgotten: 0 },
    {
      title: "goes when it was removed",
      counts: { done: 1 },
      change: () => rmSync(inRoot("in/a.wav")),
      forgotten: 1,
    },
    { title: "goes when it was moved", settings: moved, counts: { done: 1 }, forgotten: 1 },
    {
      title: "goes when it was deleted",
      settings: () => ({ after: "delete" }),
      counts: { done: 1 },
      forgotten: 1,
    },
    {
      title: "goes when a newer version has taken its place, and that one stays",
      counts: { done: 2 },
      change: () => t.put("in/a.wav", { seconds: 4, text: "नया" }),
      forgotten: 1,
    },
    {
      title: "stays when it has failed and lies there",
      sound: "no sound",
      counts: { failed: 1 },
      forgotten: 0,
    },
    {
      title: "stays when it has failed and lies in the folder of failures",
      settings: moved,
      sound: "no sound",
      counts: { failed: 1 },
      forgotten: 0,
    },
    {
      title: "goes when it has failed and was removed from there",
      settings: moved,
      sound: "no sound",
      counts: { failed: 1 },
      change: () => rmSync(inRoot("bad/a.wav")),
      forgotten: 1,
    },
    {
      title: "stays when its folder is not there",
      counts: { done: 1 },
      change: () => renameSync(inRoot("in"), inRoot("away")),
      forgotten: 0,
    },
    {
      title: "stays when another disk is mounted at its folder",
      counts: { done: 1 },
      change() {
        renameSync(inRoot("in"), inRoot("away"));
        t.put("in/note.txt", "of another disk");
      },
      forgotten: 0,
    },
  ];
  test.each(SCENARIOS)("$title", async ({ settings, sound, counts, change, forgotten }) => {
    t.put("in/a.wav", sound ?? speech);
    const { service } = t.start([t.settings({ results: inRoot("out"), ...settings?.() })]);
    await t.until(() => t.counts().done === 1 || t.counts().failed === 1);
    change?.();
    await t.until(() => Bun.deepEquals(t.counts(), counts), JSON.stringify(counts));
    expect(await service.forgetOld({ nowMs: t.clock.now(), wrong: [] })).toBe(0);
    const charges = t.charges();
    expect(await service.forgetOld({ nowMs: t.clock.now() + 1, wrong: [] })).toBe(forgotten);
    // What lies there, or comes back with its disk, is not done again.
    if (t.has("away")) {
      rmSync(inRoot("in"), { recursive: true, force: true });
      renameSync(inRoot("away"), inRoot("in"));
    }
    await Bun.sleep(150);
    expect(t.charges()).toBe(charges);
    const left = Object.values(counts).reduce((sum, count) => sum + count, 0) - forgotten;
    expect(Object.values(t.counts()).reduce((sum, count) => sum + count, 0)).toBe(left);
  });

  test("stays where a disk may be missing at a subfolder, and goes with the subfolder", async () => {
    t.put("in/2026/08/a.wav", speech);
    const { service } = t.start([t.settings({ results: inRoot("out") })]);
    await t.until(() => t.counts().done === 1);
    const forget = () => service.forgetOld({ nowMs: t.clock.now() + 1, wrong: [] });
    renameSync(inRoot("in/2026/08"), inRoot("away"));
    expect(await forget()).toBe(0);
    renameSync(inRoot("away"), inRoot("in/2026/08"));
    await Bun.sleep(150);
    expect([t.charges(), t.counts()]).toEqual([1, { done: 1 }]);
    rmSync(inRoot("in/2026"), { recursive: true });
    expect(await forget()).toBe(1);
  });

  test("goes from a folder whose disk has another number since a restart, where a known file lies", async () => {
    t.put("in/a.wav", speech);
    t.put("in/b.wav", { ...speech, text: "दो" });
    const { service } = t.start([t.settings({ results: inRoot("out") })]);
    await t.until(() => t.counts().done === 2);
    rmSync(inRoot("in/a.wav"));
    t.app.database.sqlite.run("UPDATE watched_files SET device = 'earlier'");
    expect(await service.forgetOld({ nowMs: t.clock.now() + 1, wrong: [] })).toBe(1);
    rmSync(inRoot("in/b.wav"));
    expect(await service.forgetOld({ nowMs: t.clock.now() + 1, wrong: [] })).toBe(0);
  });
});

test("the speech of a folder can become English, where the config allows translations", async () => {
  const hindi = { ...speech, text: "डॉक्टर को दिए", english: "The doctor was given it." };
  const on = await openFolderTest({ config: { capabilities: { translation: true } }, canTranslate: true });
  try {
    on.put("in/a.wav", hindi);
    const settings = on.settings({ task: "translate", formats: ["txt"] });
    on.start([settings]);
    await on.until(() => on.counts().done === 1);
    expect(on.read("in/a.txt")).toContain(hindi.english);
    const check = (translation: boolean) => () => {
      const capabilities = { ...on.config.capabilities, translation };
      checkFolderSettings({
        ...on.config,
        capabilities,
        intake: { ...on.config.intake, folder: [settings] },
      });
    };
    expect(check(false)).toThrow("task = translate needs capabilities.translation = true");
    expect(check(true)).not.toThrow();
    // What a translation cannot have is a problem of the folder, and no file's.
    const { service } = on.start([{ ...settings, path: `${on.root}/other`, timestamps: "word" }]);
    await on.until(() => service.numbers().problems === 1);
  } finally {
    await on.close();
  }
});

describe("after an interruption", () => {
  test("the work continues, and nothing is charged twice", async () => {
    for (let at = 0; at < 6; at++) t.put(`in/${at}.wav`, { seconds: 3 + at, text: `संख्या ${at}` });
    const folder = t.settings({
      after: "move",
      move_to: inRoot("old"),
      results: inRoot("out"),
      formats: ["txt"],
    });
    for (let round = 0; round < 12; round++) {
      const { service } = t.start([folder]);
      await Bun.sleep(30 + round * 25);
      await service.stop();
    }
    t.start([folder]);
    await t.until(() => t.counts().done === 6);
    expect(t.charges()).toBe(6);
    expect(t.names("in")).toEqual([]);
    expect(t.names("old")).toHaveLength(6);
    for (let at = 0; at < 6; at++) expect(t.read(`out/${at}.txt`)).toContain(`संख्या ${at}`);
  });

  test("a move that was only begun is completed", async () => {
    t.put("in/a.wav");
    const folder = t.settings({
      after: "move",
      move_to: inRoot("old"),
      results: inRoot("out"),
      formats: ["txt"],
    });
    const release = t.engine.hold();
    const { service } = t.start([folder]);
    await t.until(() => t.counts().accepted === 1);
    await service.stop();
    release();
    // As a kill between the new name and the removal of the old one leaves it.
    linkSync(inRoot("in/a.wav"), inRoot("old/a.wav"));
    t.app.database.sqlite.run("UPDATE watched_files SET moved_to = ?", [inRoot("old/a.wav")]);
    t.start([folder]);
    await t.until(() => t.counts().done === 1);
    expect(t.names("old")).toEqual(["a.wav"]);
    expect(t.names("in")).toEqual([]);
    expect(readFileSync(inRoot("old/a.wav")).length).toBeGreaterThan(0);
  });
});
