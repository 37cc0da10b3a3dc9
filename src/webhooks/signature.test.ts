import { expect, test } from "bun:test";
import { Webhook } from "standardwebhooks";
import { newSigningSecret, signatureHeader } from "./signature.ts";

const body = '{"type":"transcription.completed","data":{"id":"tr_1","state":"completed","π":"हिन्दी"}}';

function headersOf(secrets: string[]) {
  const timestampSeconds = Math.floor(Date.now() / 1000);
  return {
    "webhook-id": "evt_1",
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": signatureHeader(secrets, { id: "evt_1", timestampSeconds, body }),
  };
}

test("a Standard Webhooks library accepts signed events, and nothing else", () => {
  const secret = newSigningSecret();
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  const headers = headersOf([secret]);
  expect(new Webhook(secret).verify(body, headers)).toEqual(JSON.parse(body));
  expect(() => new Webhook(secret).verify(`${body} `, headers)).toThrow();
  expect(() => new Webhook(newSigningSecret()).verify(body, headers)).toThrow();
  expect(() => new Webhook(secret).verify(body, { ...headers, "webhook-id": "evt_2" })).toThrow();
});

test("during a rotation either secret verifies", () => {
  const secrets = [newSigningSecret(), newSigningSecret()];
  const headers = headersOf(secrets);
  expect(headers["webhook-signature"].split(" ")).toHaveLength(2);
  for (const secret of secrets) expect(new Webhook(secret).verify(body, headers)).toBeDefined();
});
