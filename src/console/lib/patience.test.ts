import { beforeAll, describe, expect, test } from "bun:test";
import { loadAsPage } from "../../testing/console/console-page.ts";

let patience: typeof import("./patience.ts");
let api: typeof import("./api.ts");

beforeAll(async () => {
  api = await loadAsPage(() => import("./api.ts"));
  patience = await import("./patience.ts");
});

describe("a refusal of the server", () => {
  const waitFor = (code: string, retryAfterSeconds: number | undefined, tries = 1, random = 0) =>
    patience.secondsToWait(
      new api.Failure(code, "", retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
      tries,
      random,
    );

  test("is waited for as long as the server says, where it passes by itself", () => {
    expect(waitFor("rate_limited", 3)).toBe(3);
    expect(waitFor("capacity_unavailable", 60)).toBe(60);
    expect(waitFor("too_many_queued", undefined)).toBe(1);
  });

  test("is left to a person where it does not, or takes long", () => {
    expect(waitFor("spend_limit_reached", 3)).toBeUndefined();
    expect(waitFor("insufficient_credit", undefined)).toBeUndefined();
    expect(waitFor("rate_limited", 3600)).toBeUndefined();
  });

  test("leads many that wait back at different moments", () => {
    expect(waitFor("rate_limited", 1, 1, 0.5)).toBe(1.5);
    expect(waitFor("rate_limited", 1, 100, 1)).toBe(9);
  });

  test("ends the tries once the result is not wanted any more", async () => {
    let tries = 0;
    const act = () => {
      tries++;
      return Promise.reject(new api.Failure("rate_limited", "", { retryAfterSeconds: 0.01 }));
    };
    await expect(patience.patiently(act, () => tries < 2)).rejects.toThrow();
    expect(tries).toBe(2);
  });
});

test("many calls are few acts, and the last call is followed by one", async () => {
  let acts = 0;
  const act = patience.seldom(50, () => {
    acts++;
  });
  for (let call = 0; call < 10; call++) act();
  expect(acts).toBe(1);
  await Bun.sleep(120);
  expect(acts).toBe(2);
});
