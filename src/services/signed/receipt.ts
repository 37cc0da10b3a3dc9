import { Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import type { DeletionReceipt } from "../../domain/receipt.ts";

const Text = Type.String({ maxLength: 2000 });
const Count = Type.Integer({ minimum: 0 });

/** Members that a later version adds are allowed: the signature covers them. */
const RECEIPT = Type.Object({
  object: Type.Literal("deletion_receipt"),
  id: Text,
  created_at: Text,
  deleted: Type.Object({
    kind: Type.Union([Type.Literal("transcription"), Type.Literal("upload"), Type.Literal("organization")]),
    id: Text,
    organization_id: Text,
  }),
  by: Type.Object({ source: Text, name: Text }),
  recording: Type.Union([
    Type.Null(),
    Type.Object({ upload_id: Text, sha256: Type.Union([Type.Null(), Text]), bytes: Count }),
  ]),
  transcript: Type.Union([Type.Null(), Type.Object({ sha256: Text })]),
  removed: Type.Union([Type.Null(), Type.Record(Type.String(), Count)]),
  not_reached: Type.Optional(
    Type.Object({
      backups: Type.Array(
        Type.Object({ path: Text, made_at: Type.Union([Type.Null(), Text]), found: Type.Boolean() }),
      ),
      backups_count: Count,
      elsewhere: Text,
    }),
  ),
});

/** Reports whether a signed document is a receipt of a deletion that this version can read. */
export function isReceipt(document: unknown): document is DeletionReceipt {
  return Value.Check(RECEIPT, document);
}
