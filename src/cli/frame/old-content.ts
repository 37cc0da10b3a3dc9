import { toTimestamp } from "../../lib/time.ts";
import type { CliContext } from "./context.ts";
import { counted } from "./output.ts";

type Old = { recordings: number; transcripts: number };

/** Counts what is old if the clock is right. */
export async function findOld(context: CliContext): Promise<Old> {
  const admin = await context.openServices();
  const { countOldContent } = await import("../../services/retention.ts");
  return countOldContent(admin, admin.trust.agesIfConfirmed());
}

/** Says how much is old, such as `1 recording, 2 transcripts`. */
export const describeOld = ({ recordings, transcripts }: Old) =>
  `${counted(recordings, "recording")}, ${counted(transcripts, "transcript")}`;

/** Asks for the confirmation of the present reading, and says what it would remove. */
export async function clockQuestion(context: CliContext): Promise<string> {
  const old = describeOld(await findOld(context));
  return `Is ${toTimestamp(context.clock.now())} the right time? What is old by it is removed for good: ${old}.`;
}
