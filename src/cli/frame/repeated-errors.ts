import { createRepeatedErrors } from "../../lib/repeated-errors.ts";

/** Makes the filter of the log of a program that keeps running: what a full disk repeats is counted. */
export async function repeatedErrors(): Promise<ReturnType<typeof createRepeatedErrors>> {
  const { lastingState } = await import("../../store/disk-full.ts");
  return createRepeatedErrors(({ err, state }) => (typeof state === "string" ? state : lastingState(err)));
}
