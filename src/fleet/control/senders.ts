import type { LinkMessage } from "../link.ts";
import { inboxOf, lastPart } from "../subjects.ts";

/** What a worker can send: a request, which asks for an answer, or a sign of life, which asks for none. */
export type Sent = "request" | "sign";

/**
 * Finds the worker that has sent a message to the control plane. The messaging server lets only that worker publish under its
 * subject. But a member that asks the server for something chooses where the server's own answer goes, and so can have tickets,
 * states and empty receipts delivered under the subjects of others. Those are recognized here: a worker's message has content, no
 * state, its own subject, and, as a request, an address for the answer at which only this worker may hear.
 *
 * @param subjectOf returns the subject of such messages of a worker
 * @returns the worker's name; undefined: no worker can have sent it, so it must be neither answered nor held against one
 */
export function senderOf(
  { subject, data, reply, status }: Pick<LinkMessage, "subject" | "data" | "reply" | "status">,
  subjectOf: (worker: string) => string,
  sent: Sent,
): string | undefined {
  const worker = lastPart(subject);
  if (subject !== subjectOf(worker) || status !== undefined || data.length === 0) return undefined;
  const isAnswerable = reply?.startsWith(`${inboxOf(worker)}.`) ?? false;
  return (sent === "request" ? isAnswerable : !reply) ? worker : undefined;
}
