import { nextTurn } from "../lib/in-slices.ts";

/**
 * Loads what writes numbers. The words of Tamil, Malayalam and Kannada take the most time to make, so each has a turn of the event loop
 * of its own.
 */
export async function loadWritten(): Promise<typeof import("./apply.ts")> {
  await import("./languages/ta.ts");
  await nextTurn();
  await import("./languages/ml.ts");
  await nextTurn();
  await import("./languages/kn.ts");
  await nextTurn();
  return import("./apply.ts");
}
