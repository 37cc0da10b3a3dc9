import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Installation, install, until } from "./kit.ts";
import { descendantsOf, isAlive } from "./processes.ts";
import { concatenated } from "./samples.ts";

/** Ends `shruti transcribe` in the middle of its work, on a terminal. */

let installation: Installation;
let temporary: string;
let recording: string;
beforeAll(async () => {
  installation = await install();
  temporary = join(installation.folder, "tmp");
  mkdirSync(temporary);
  recording = join(installation.folder, "long.wav");
  writeFileSync(recording, concatenated(["01-en"], 400));
}, 300_000);
afterAll(() => installation?.remove(), 300_000);

const lastOf = (text: string, codes: string[]) =>
  codes.toSorted((a, b) => text.lastIndexOf(b) - text.lastIndexOf(a))[0];

function start() {
  let shown = "";
  const child = Bun.spawn(
    [
      join(installation.folder, "program/shruti"),
      ...["transcribe", recording, "--language", "en", "--config", installation.configPath],
    ],
    {
      cwd: installation.folder,
      env: { TMPDIR: temporary, HOME: installation.folder, TERM: "xterm" },
      terminal: {
        cols: 80,
        rows: 24,
        data: (_terminal, data) => {
          shown += Buffer.from(data).toString();
        },
      },
    },
  );
  return { child, shown: () => shown };
}

const decodedBytes = () =>
  readdirSync(temporary, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".pcm"));

describe("transcribe on a terminal", () => {
  const ENDS: [name: string, status: number, end: (child: Bun.Subprocess) => void][] = [
    ["Ctrl-C", 130, (child) => void child.terminal?.write("\x03")],
    ["SIGINT", 130, (child) => child.kill("SIGINT")],
    ["SIGTERM", 143, (child) => child.kill("SIGTERM")],
    ["SIGHUP", 129, (child) => child.kill("SIGHUP")],
    ["SIGQUIT", 131, (child) => child.kill("SIGQUIT")],
  ];
  for (const [name, status, end] of ENDS) {
    test(`leaves no audio, no child and a usable terminal after ${name}`, async () => {
      const { child, shown } = start();
      await until(
        "the bar is shown and audio decoded",
        () => shown().includes("\x1b[?7l") && decodedBytes().length > 0,
      );
      await until("it has children", () => descendantsOf(child.pid).length > 0);
      const children = descendantsOf(child.pid);
      end(child);
      await child.exited;
      expect({ status: child.exitCode, signal: child.signalCode }).toEqual({ status, signal: null });
      expect(readdirSync(temporary)).toEqual([]);
      await until("its children are gone", () => !children.some(isAlive));
      await until("the cursor is back", () => lastOf(shown(), ["\x1b[?25l", "\x1b[?25h"]) === "\x1b[?25h");
      expect(lastOf(shown(), ["\x1b[?7l", "\x1b[?7h"])).toBe("\x1b[?7h");
    }, 300_000);
  }

  test("removes what one that was killed left behind a day before", async () => {
    const killed = start();
    await until("audio is decoded", () => decodedBytes().length > 0);
    killed.child.kill("SIGKILL");
    await killed.child.exited;
    const [left = "none"] = readdirSync(temporary);
    expect(existsSync(join(temporary, left))).toBe(true);
    const aDayAgo = Date.now() / 1000 - 25 * 3600;
    utimesSync(join(temporary, left), aDayAgo, aDayAgo);
    const next = start();
    await until("audio is decoded", () => decodedBytes().some((path) => !path.startsWith(left)));
    expect(readdirSync(temporary)).not.toContain(left);
    next.child.kill("SIGTERM");
    expect(await next.child.exited).toBe(143);
  }, 300_000);
});
