import { expect, test } from "bun:test";
import { systemUser } from "./actor.ts";

test("the user's name is that of the system, whatever the environment says", () => {
  const name = Bun.spawnSync(["id", "-un"]).stdout.toString().trim();
  const before = process.env.USER;
  process.env.USER = "mallory";
  try {
    expect(systemUser({ USER: "mallory", LOGNAME: "mallory" })).toBe(name);
    const isRoot = process.getuid?.() === 0;
    expect(systemUser({ SUDO_USER: "asha" })).toBe(isRoot ? "root (sudo: asha)" : name);
  } finally {
    if (before === undefined) delete process.env.USER;
    else process.env.USER = before;
  }
});
