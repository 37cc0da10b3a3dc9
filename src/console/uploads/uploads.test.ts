import { afterEach, beforeAll, beforeEach, describe, expect, type Mock, mock, spyOn, test } from "bun:test";
import { Upload } from "tus-js-client";
import { loadAsPage } from "../../testing/console/console-page.ts";
import type { Choices } from "./choices.ts";
import type { UploadItem } from "./uploads.ts";

type Answer = { status: number; body: unknown; headers?: Record<string, string> };

let own: typeof import("./uploads.ts");
let Failure: typeof import("../lib/api.ts").Failure;
let asked: string[];
let answers: (path: string) => Answer;

const refusal = (status: number, code: string, headers = {}): Answer => ({
  ...{ status, headers, body: { error: { code, message: "no" } } },
});

beforeAll(async () => {
  ({ Failure } = await loadAsPage(() => import("../lib/api.ts")));
  own = await loadAsPage(() => import("./uploads.ts"));
});
beforeEach(() => {
  asked = [];
  const answer = (async (url: URL, { method = "GET" }: RequestInit = {}) => {
    asked.push(`${method} ${url.pathname}`);
    const { status, body, headers } = answers(url.pathname);
    return Response.json(body, { status, ...(headers ? { headers } : {}) });
  }) as unknown as typeof fetch;
  spyOn(globalThis, "fetch").mockImplementation(answer);
});
afterEach(() => {
  mock.restore();
  own.uploads.value = [];
});

const choices: Choices = {
  ...{ language: "hi", mode: "native", channelMode: "mix", isDiarized: false },
  ...{ model: undefined, speakers: undefined },
};
const stepsNow = () => Object.fromEntries(own.uploads.value.map(({ id, step }) => [id, step]));

async function until(isTrue: () => boolean): Promise<void> {
  for (let left = 500; left > 0 && !isTrue(); left -= 1) await Bun.sleep(10);
  expect(isTrue()).toBe(true);
}

function item(id: string, step: UploadItem["step"], code: string | undefined, isSent = true): UploadItem {
  return {
    ...{ id, step, isSent, choices, fileName: `${id}.wav`, bytes: 1, lastModified: 0, sentBytes: 0 },
    ...{ agreedPaise: undefined, owner: "", uploadId: `up_${id}`, destination: undefined, file: undefined },
    ...{ failure: code === undefined ? undefined : new Failure(code, ""), seconds: 1, pricePaise: 1 },
  };
}

test("what failed is tried again in one act, but not what another try cannot change", async () => {
  answers = () => refusal(402, "insufficient_credits");
  own.uploads.value = [
    item("unsent", "failed", "upload_failed", false),
    item("unverified", "failed", "internal"),
    item("unstarted", "ready", "insufficient_credits"),
    item("unread", "failed", "audio_decode_failed"),
    item("asking", "ready", undefined),
  ];
  own.retryAll();
  expect(stepsNow()).toEqual({
    ...{ unsent: "unpicked", unverified: "checking", unstarted: "starting" },
    ...{ unread: "failed", asking: "ready" },
  });
  await until(() => stepsNow().unverified === "failed" && stepsNow().unstarted === "ready");
  expect(asked.toSorted()).toEqual(["POST /v1/transcriptions", "POST /v1/uploads/up_unverified/complete"]);
  expect(own.uploads.value.filter(own.isWorthARetry).map(({ id }) => id)).toEqual([
    ...["unverified", "unstarted"],
  ]);
});

describe("a file that waits for its place on the server", () => {
  let starts: Mock<() => void>;
  beforeEach(() => {
    starts = spyOn(Upload.prototype, "start").mockImplementation(() => undefined);
    // All come back as soon as the server says.
    spyOn(Math, "random").mockReturnValue(0);
  });

  /** Takes up a file for which the server has no place at first. Returns its ID. */
  function add(): string {
    const created = {
      id: "up_1",
      resumable_upload: {
        endpoint: "http://localhost/storage/tus",
        headers: {},
        metadata: {},
        chunk_size: 1,
      },
    };
    answers = () =>
      asked.length === 1
        ? refusal(429, "rate_limited", { "retry-after": "0.01" })
        : { status: 201, body: created };
    own.addUploads([{ file: new File(["x"], "one.wav"), choices, agreedPaise: undefined }]);
    return own.uploads.value[0]?.id ?? "";
  }
  const hasPlace = () => own.uploads.value[0]?.destination !== undefined;

  test("is sent once it has one", async () => {
    add();
    await until(() => starts.mock.calls.length === 1);
    expect(asked).toHaveLength(2);
  });

  test("is not sent while it is paused", async () => {
    const id = add();
    own.pauseUpload(id);
    await until(hasPlace);
    await Bun.sleep(20);
    expect(starts).not.toHaveBeenCalled();
    expect(stepsNow()[id]).toBe("paused");
    own.resumeUpload(id);
    await until(() => starts.mock.calls.length === 1);
    expect(asked).toHaveLength(2);
  });

  test("is sent once, to one place, when it was paused and resumed meanwhile", async () => {
    const id = add();
    own.pauseUpload(id);
    own.resumeUpload(id);
    await until(() => starts.mock.calls.length > 0);
    await Bun.sleep(50);
    expect(starts).toHaveBeenCalledTimes(1);
    expect(asked).toEqual(["POST /v1/uploads", "POST /v1/uploads"]);
  });

  test("stays paused when the connection is lost meanwhile, and is sent once it is resumed", async () => {
    let isConnected = false;
    const id = add();
    const answered = answers;
    answers = (path) => {
      if (!isConnected) throw new TypeError("no connection");
      return answered(path);
    };
    own.pauseUpload(id);
    await until(() => asked.length === 1);
    await Bun.sleep(30);
    expect(stepsNow()[id]).toBe("paused");
    expect(own.isOnItsWay.value).toBe(false);
    isConnected = true;
    own.resumeUpload(id);
    expect(own.isOnItsWay.value).toBe(true);
    await until(() => starts.mock.calls.length === 1);
    expect(stepsNow()[id]).toBe("sending");
  });
});

test("the page has something on its way until the transcription has begun", () => {
  const steps = ["waiting", "sending", "lost", "checking", "starting"] as const;
  for (const step of steps) {
    own.uploads.value = [item(step, step, undefined)];
    expect([step, own.isOnItsWay.value]).toEqual([step, true]);
  }
  own.uploads.value = (["paused", "unpicked", "ready", "failed"] as const).map((step) =>
    item(step, step, undefined),
  );
  expect(own.isOnItsWay.value).toBe(false);
});
