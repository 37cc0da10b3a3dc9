import { expect, test } from "bun:test";
import { loggedPath } from "./logged-path.ts";

const KEY = "shr_VSpWcjQhbGZ1DAp8AZOOJ1YH_nytYUaX8MpGwfQm03gwvShw94IkQffRhM9VTZ58hqdT2F1tD4";
const encode = (text: string) => [...text].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join("");

const SHOWN: [name: string, path: string, shown: string][] = [
  [
    "an ordinary path",
    "/v1/uploads/up_01M80JJSCXSJ4BKRKKHXDY3HKQ",
    "/v1/uploads/up_01M80JJSCXSJ4BKRKKHXDY3HKQ",
  ],
  ["a path with encoded characters and no secret", "/v1/%E0%A4%A8%20x/%41", "/v1/%E0%A4%A8%20x/%41"],
  ["a key", `/v1/${KEY}/x`, "/v1/shr_…/x"],
  ["a token", "/v1/upt_abc-def", "/v1/upt_…"],
  ["a webhook's secret", "/v1/whsec_MfKQ9r8GKYqrTwjU", "/v1/whsec_…"],
  ["an encoded underscore", `/v1/${KEY.replaceAll("_", "%5F")}`, "/v1/shr_…"],
  ["an encoded first letter", `/v1/%73${KEY.slice(1)}`, "/v1/shr_…"],
  ["everything encoded", `/v1/${encode(KEY)}`, "/v1/shr_…"],
  ["everything encoded twice", `/v1/${encode(KEY).replaceAll("%", "%25")}`, "/v1/shr_…"],
  [
    "everything encoded, and the beginning of that again",
    `/v1/${encode(encode(KEY.slice(0, 12)))}`,
    "/v1/shr_…",
  ],
  ["encoded four times", `/v1/%25252573${KEY.slice(1)}`, "/v1/shr_…"],
  ["capitals", "/v1/SHR%5Fabc", "/v1/SHR_…"],
];
for (const [name, path, shown] of SHOWN) {
  test(`the log shows ${name} as ${shown}`, () => expect(loggedPath(path)).toBe(shown));
}

test("a path that is encoded without end is not shown, and takes no time", () => {
  const startedAt = performance.now();
  expect(loggedPath(`/v1/%${"25".repeat(4000)}73hr_secret`)).toBe("(encoded too often)");
  expect(loggedPath(`/v1/${"%25".repeat(100_000)}`).length).toBeLessThanOrEqual(200);
  expect(performance.now() - startedAt).toBeLessThan(100);
});

test("a long path is cut, and a secret at its end is not shown", () => {
  expect(loggedPath(`/${"x".repeat(300)}`)).toHaveLength(200);
  expect(loggedPath(`/${"x".repeat(190)}/${KEY}`)).toEndWith("/shr_…");
});
