import { afterAll, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeScratch, removeAbandoned, removeAllScratch, removeScratch } from "./scratch.ts";

const parent = mkdtempSync(join(tmpdir(), "shruti-scratch-"));
afterAll(() => rmSync(parent, { recursive: true }));

test("a scratch folder is private, and is removed with its contents", () => {
  const [first, second] = [makeScratch(), makeScratch()];
  expect(statSync(first).mode & 0o777).toBe(0o700);
  for (const folder of [first, second]) writeFileSync(join(folder, "mix.pcm"), "sound");
  removeScratch(first);
  expect([first, second].map((path) => existsSync(path))).toEqual([false, true]);
  removeAllScratch();
  expect(existsSync(second)).toBe(false);
});

test("only old folders of this program and this user whose process has ended count as abandoned", () => {
  const dead = Bun.spawnSync(["true"]).pid;
  const hour = 3_600;
  const at = (name: string) => join(parent, name);
  const make = (name: string, ageHours: number) => {
    mkdirSync(at(name));
    writeFileSync(join(at(name), "mix.pcm"), "sound");
    const time = Date.now() / 1000 - ageHours * hour;
    utimesSync(at(name), time, time);
    return name;
  };
  const gone = [make(`shruti-transcribe-${dead}-abc`, 25), make("shruti-transcribe-4AcJW0", 25)];
  const kept = [
    make(`shruti-transcribe-${dead}-new`, 23),
    make(`shruti-transcribe-${process.pid}-old`, 48),
    make("shruti-transcribed", 48),
    make("somebody-else", 48),
  ];
  symlinkSync(at("somebody-else"), at("shruti-transcribe-link"));
  removeAbandoned(parent, Date.now() + 100);
  expect(gone.map((name) => existsSync(at(name)))).toEqual([false, false]);
  for (const name of [...kept, "shruti-transcribe-link"])
    expect(existsSync(join(at(name), "mix.pcm"))).toBe(true);
});
