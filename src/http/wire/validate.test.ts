import { expect, test } from "bun:test";
import { AppError } from "../../domain/errors.ts";
import { KeyCreate } from "./console.ts";
import {
  TranscriptionCreate,
  TranscriptionListQuery,
  UploadCreate,
  WebhookEndpointCreate,
} from "./schemas.ts";
import { validate } from "./validate.ts";

/** The sentences of refusals, as clients read them. */

const audio = { upload_id: "up_x" };
const start = (fields: object) => ({ audio, language: "hi", ...fields });
const hook = (events: unknown) => ({ url: "https://hooks.example", events });
const key = (scopes: unknown) => ({ project_id: "prj_x", name: "n", scopes });

test.each([
  [TranscriptionCreate, start({ mode: "x" }), 'mode must be "native", "codemix" or "verbatim".'],
  [TranscriptionCreate, start({ channel_mode: null }), 'channel_mode must be "mix" or "separate".'],
  [
    TranscriptionCreate,
    start({ diarization: "true" }),
    "diarization must be true or false, an object with speakers or an object with min_speakers and max_speakers.",
  ],
  [TranscriptionCreate, start({ audio: "x" }), "audio must be an object with upload_id or source_url."],
  [TranscriptionCreate, start({ language: "" }), "language must have 1 to 35 characters."],
  [TranscriptionCreate, {}, "audio is required."],
  [TranscriptionListQuery, { state: "" }, "state must not be empty."],
  [TranscriptionListQuery, { limit: "x" }, "limit must be a whole number."],
  [UploadCreate, { bytes: 0 }, "bytes must be at least 1."],
  [UploadCreate, { bytes: 5, sha256: "x" }, "sha256 must match ^[0-9a-f]{64}$."],
  [UploadCreate, [], "The body must be an object with bytes and sha256."],
  [WebhookEndpointCreate, hook("credit.low"), 'events must be a list; each of its values is "credit.low".'],
  [WebhookEndpointCreate, hook(["x"]), 'events.0 must be "credit.low".'],
  [WebhookEndpointCreate, hook(["credit.low", "x"]), "events must have at most 1 value."],
  [KeyCreate, key(Array(33).fill("models:read")), "scopes must have at most 32 values."],
])("%#: the refusal is a sentence", (schema, value, message) => {
  let thrown: unknown;
  try {
    validate(schema, value);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(AppError);
  expect((thrown as AppError).message).toBe(message);
});
