import { describe, expect, test } from "bun:test";
import { hashRequest, isSameRequest, type RequestIdentity } from "./acceptance.ts";

const identity: RequestIdentity = {
  model: { id: "demo" },
  isModelNamed: false,
  request: { language: "hi", mode: "native", timestamps: "segment", channelMode: "mix" },
  audio: "up_1",
};
const base = hashRequest(identity);
const named = { ...identity, isModelNamed: true };

describe("the request behind an idempotency key", () => {
  const same: [string, RequestIdentity][] = [
    ["the same values", identity],
    ["the default model by its name", named],
    ["a default model that has changed since", { ...identity, model: { id: "large" } }],
  ];
  for (const [name, other] of same) {
    test(`same: ${name}`, () => expect(isSameRequest(base, hashRequest(other))).toBe(true));
  }

  const different: [string, RequestIdentity][] = [
    ["other audio", { ...identity, audio: "up_2" }],
    ["another language", { ...identity, request: { ...identity.request, language: "en" } }],
    ["another mode", { ...identity, request: { ...identity.request, mode: "verbatim" } }],
    ["speakers", { ...identity, request: { ...identity.request, diarization: {} } }],
    ["a webhook", { ...identity, webhookEndpointId: "whe_1" }],
    ["another model by name", { ...named, model: { id: "large" } }],
  ];
  for (const [name, other] of different) {
    test(`different: ${name}`, () => expect(isSameRequest(base, hashRequest(other))).toBe(false));
  }
  test("different: two named models", () => {
    const other = hashRequest({ ...named, model: { id: "large" } });
    expect(isSameRequest(hashRequest(named), other)).toBe(false);
  });
});
