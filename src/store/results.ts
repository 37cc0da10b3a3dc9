import { eq } from "drizzle-orm";
import type { TranscriptionResult } from "../domain/result.ts";
import type { Store } from "./database.ts";
import { results } from "./schema.ts";

export function insertResult(
  tx: Store,
  transcriptionId: string,
  result: TranscriptionResult,
  nowMs: number,
): void {
  tx.insert(results).values({ transcriptionId, result, createdAt: nowMs }).run();
}

export function findResult(store: Store, transcriptionId: string): TranscriptionResult | undefined {
  return store
    .select({ result: results.result })
    .from(results)
    .where(eq(results.transcriptionId, transcriptionId))
    .get()?.result;
}

export function deleteResult(tx: Store, transcriptionId: string): void {
  tx.delete(results).where(eq(results.transcriptionId, transcriptionId)).run();
}
