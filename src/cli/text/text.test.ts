import { describe, expect, test } from "bun:test";
import { runCaptured } from "../../testing/kits/run-cli.ts";

describe("shruti text refuses", () => {
  test.each([
    [["--language", "xx"], "there is no language xx"],
    [["--language", "hi", "--numerals", "roman"], "--numerals is spoken or written"],
    [["--language", "hi", "--grouping", "none"], "--grouping is indian or international"],
    [["--language", "hi", "--digits", "thai"], "--digits is latin or own"],
    [["--language", "hi", "--script", "xxxx"], "--script xxxx: The script is native, latin, iso15919"],
    [["--language", "ur", "--script", "latin"], "Arabic letters leave short vowels out"],
  ])("%j", async (options, message) => {
    const { status, err } = await runCaptured(["text", ...options], {});
    expect(status).toBe(2);
    expect(err).toContain(message);
  });
});
