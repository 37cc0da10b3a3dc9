import { describe, expect, test } from "bun:test";
import { runCaptured } from "../../testing/kits/run-cli.ts";

describe("shruti text refuses", () => {
  test.each([
    [["--language", "xx"], "there is no language xx"],
    [["--language", "hi", "--numerals", "roman"], "--numerals is spoken or written"],
    [["--language", "hi", "--grouping", "none"], "--grouping is indian or international"],
    [["--language", "hi", "--digits", "thai"], "--digits is latin or own"],
    [["--language", "hi", "--script", "xxxx"], "there is no script xxxx"],
  ])("%j", async (options, message) => {
    const { status, err } = await runCaptured(["text", ...options], {});
    expect(status).toBe(2);
    expect(err).toContain(message);
  });
});
