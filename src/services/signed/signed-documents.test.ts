import { describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import fc from "fast-check";
import type { DeletionReceipt } from "../../domain/receipt.ts";
import { KeyError } from "../../lib/signatures.ts";
import { isReceipt } from "./receipt.ts";
import { canonicalJson, signDocument, verifyDocument } from "./signed-documents.ts";

const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const other = generateKeyPairSync("ed25519");

const RECEIPT: DeletionReceipt = {
  ...{ object: "deletion_receipt", id: "rcp_1", created_at: "2026-11-26T10:00:00.000Z" },
  deleted: { kind: "upload", id: "up_1", organization_id: "org_1" },
  by: { source: "command_line", name: "अनु \u{1F600}" },
  recording: { upload_id: "up_1", sha256: null, bytes: 1234567 },
  transcript: null,
  removed: null,
};
const signed = signDocument(RECEIPT, privateKey);
const text = JSON.stringify(signed, null, 2);

/** Changes a text that must be in the document. */
function changed(from: string, to: string): string {
  expect(text).toContain(from);
  return text.replace(from, to);
}

const FORGED: Record<string, { text: () => string; reason: string }> = {
  "a member twice, the forged one first": {
    text: () =>
      changed('"deleted":', '"deleted": {"kind": "organization", "id": "org_EVERYTHING"}, "deleted":'),
    reason: 'it has "document.deleted" twice',
  },
  "a member twice, once with an escape": {
    text: () => changed('"deleted":', '"\\u0064eleted": null, "deleted":'),
    reason: 'it has "document.deleted" twice',
  },
  "a member beside the document": {
    text: () => changed('"document":', '"note": "all of it", "document":'),
    reason: 'it has "note", which is not signed',
  },
  "a member beside the signature's": {
    text: () => changed('"algorithm":', '"signer": "another person", "algorithm":'),
    reason: 'it has "signer", which is not signed',
  },
  "a number out of range for null": {
    text: () => changed('"removed": null', '"removed": 1e999'),
    reason: "it has the number 1e999, which not every program reads alike",
  },
  "a number with digits that JavaScript drops": {
    text: () => changed("1234567", "1234567.00000000000000000001"),
    reason: "it has the number 1234567.00000000000000000001, which not every program reads alike",
  },
  "another number of the same value": {
    text: () => changed("1234567", "1234567.0"),
    reason: "it has the number 1234567.0, which not every program reads alike",
  },
  "half a character": {
    text: () => changed('"command_line"', '"command_line\\ud83d"'),
    reason: "it has a text with half a character",
  },
  "another algorithm": {
    text: () => changed('"Ed25519"', '"RS256"'),
    reason: "its signature is not of Ed25519",
  },
  "another fingerprint": {
    text: () => changed(signed.signature.fingerprint, "0".repeat(64)),
    reason: "it names another key than",
  },
  "another public key": {
    text: () =>
      JSON.stringify({ ...signed, signature: { ...signed.signature, public_key: pemOf(other.publicKey) } }),
    reason: "it names another key than",
  },
  "a signature with further characters": {
    text: () => changed('"value": "', '"value": "*'),
    reason: "it has been changed since it was signed",
  },
  "a changed document": {
    text: () => changed("up_1", "up_2"),
    reason: "it has been changed since it was signed",
  },
  "200,000 brackets": {
    text: () => changed('"removed": null', `"removed": ${"[".repeat(200_000)}${"]".repeat(200_000)}`),
    reason: "it nests deeper than 32 levels",
  },
  "only brackets": {
    text: () => `${"[".repeat(200_000)}${"]".repeat(200_000)}`,
    reason: "it nests deeper than 32 levels",
  },
  "no JSON": { text: () => "hello", reason: "it is not JSON" },
  null: { text: () => "null", reason: "it is not a signed document" },
  "a list": { text: () => "[]", reason: "it is not a signed document" },
  "no signature": {
    text: () => JSON.stringify({ document: RECEIPT }),
    reason: "it is not a signed document",
  },
  "half a signature": {
    text: () => JSON.stringify({ document: RECEIPT, signature: { value: signed.signature.value } }),
    reason: "it is not a signed document",
  },
};

function pemOf(key: typeof publicKey): string {
  return key.export({ type: "spki", format: "pem" }).toString();
}

const reasonOf = (given: string | Uint8Array, key = publicKey) => {
  try {
    verifyDocument(given, key);
  } catch (error) {
    if (error instanceof KeyError) return error.message;
    throw error;
  }
  return undefined;
};

describe("a signed document", () => {
  test("verifies as it was written, in other white space, and with its members in another order", () => {
    expect(verifyDocument(text, publicKey).document).toEqual(RECEIPT);
    expect(verifyDocument(Buffer.from(JSON.stringify(signed))).document).toEqual(RECEIPT);
    expect(verifyDocument(canonicalJson(signed)).document).toEqual(RECEIPT);
    expect(reasonOf(text, other.publicKey)).toStartWith("it is not signed with the key");
  });

  test.each(Object.entries(FORGED))("with %s is refused", (_what, { text: make, reason }) => {
    expect(reasonOf(make())).toStartWith(reason);
  });

  test("that is not UTF-8 is refused", () => {
    const bytes = Buffer.from(text.replace("command_line", "command_\uFFFD"));
    const at = bytes.indexOf(Buffer.from("\uFFFD"));
    const cut = Buffer.concat([bytes.subarray(0, at), Buffer.from([0xff]), bytes.subarray(at + 3)]);
    expect(reasonOf(cut)).toBe("it is not valid UTF-8");
  });

  test("of which any bytes have changed is refused, or says the same", () => {
    const bytes = Buffer.from(text);
    const pieces = fc.oneof(
      fc.constantFrom(
        '"deleted":null,',
        '"note":1,',
        "1e999",
        "-0",
        '"\\ud800"',
        "{",
        "}",
        '"',
        ",",
        "0",
        "\\u0000",
      ),
      fc.uint8Array({ maxLength: 4 }).map((each) => Buffer.from(each).toString("latin1")),
    );
    fc.assert(
      fc.property(fc.nat(bytes.length), fc.nat(8), pieces, (at, removed, piece) => {
        const changedBytes = Buffer.concat([
          bytes.subarray(0, at),
          Buffer.from(piece, "latin1"),
          bytes.subarray(at + removed),
        ]);
        if (reasonOf(changedBytes) !== undefined) return;
        // What a reader sees that takes the first of two members, keeps all of them, and prints what it reads.
        const seen = changedBytes.toString().replaceAll(/\s(?=(?:[^"\\]|\\.|"(?:[^"\\]|\\.)*")*$)/g, "");
        expect(JSON.parse(seen)).toEqual(signed);
        expect(seen.length).toBe(JSON.stringify(signed).length);
      }),
      { numRuns: 2_000 },
    );
  });
});

test("only a receipt with all its fields is a receipt", () => {
  expect(isReceipt(RECEIPT)).toBe(true);
  for (const name of Object.keys(RECEIPT)) {
    const { [name as keyof DeletionReceipt]: _, ...rest } = RECEIPT;
    expect(isReceipt(rest)).toBe(false);
  }
  expect(isReceipt({ object: "deletion_receipt" })).toBe(false);
  expect(isReceipt(null)).toBe(false);
});
