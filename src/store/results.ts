import { eq, sql } from "drizzle-orm";
import type { TranscriptionResult } from "../domain/result.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { bytesOfPieces, jsonPieces } from "../lib/text-pieces.ts";
import type { Store } from "./database.ts";
import { prepared } from "./prepared.ts";
import { results } from "./schema.ts";

/** A result in the form in which it is stored. */
export type PackedResult = Pick<TranscriptionResult, "status"> & {
  /** The result as `JSON.stringify` writes it, UTF-8. */
  json: Uint8Array;
};

/**
 * Writes a result as JSON, for `insertResult`. Other work runs meanwhile: the text of a recording of hours is megabytes
 * long.
 */
export async function packResult(result: TranscriptionResult): Promise<PackedResult> {
  return { status: result.status, json: await bytesOfPieces(jsonPieces(result)) };
}

const insertion = prepared((store: Store) =>
  store
    .insert(results)
    .values({
      transcriptionId: sql.placeholder("transcriptionId"),
      // As bytes it is copied once. A string would be converted first.
      result: sql<TranscriptionResult>`CAST(${sql.placeholder("json")} AS TEXT)`,
      createdAt: sql.placeholder("nowMs"),
    })
    .prepare(),
);

export function insertResult(
  tx: Store,
  transcriptionId: string,
  { json }: PackedResult,
  nowMs: number,
): void {
  insertion(tx).run({ transcriptionId, json, nowMs });
}

export function findResult(store: Store, transcriptionId: string): TranscriptionResult | undefined {
  return store
    .select({ result: results.result })
    .from(results)
    .where(eq(results.transcriptionId, transcriptionId))
    .get()?.result;
}

/** Returns the SHA-256 of a stored result as JSON, in hex; undefined without a result. */
export function hashOfResult(store: Store, transcriptionId: string): string | undefined {
  const row = store
    .select({ json: sql<Uint8Array>`CAST(${results.result} AS BLOB)` })
    .from(results)
    .where(eq(results.transcriptionId, transcriptionId))
    .get();
  return row && sha256Hex(row.json);
}

export function deleteResult(tx: Store, transcriptionId: string): void {
  tx.delete(results).where(eq(results.transcriptionId, transcriptionId)).run();
}
