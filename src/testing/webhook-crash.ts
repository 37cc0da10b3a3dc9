import { isAuthentic, type Received } from "./webhook-kit.ts";

/** What a receiver got, held against what the database says; each list is empty when all is well. */
export type DeliveryAudit = {
  /** Finished transcriptions of which no event arrived. */
  missing: string[];
  /** Events that tell another state than the final one, or of a transcription that has not finished. */
  untrue: string[];
  /** Transcriptions whose events came under more than one `webhook-id`, or with differing bodies. */
  inconsistent: string[];
  /** Deliveries whose signature does not verify. */
  forged: string[];
  /** Deliveries beyond the first of each event: allowed, and expected after a crash. */
  duplicates: number;
};

/**
 * Holds "at least once, with its final state, under one id" against what happened.
 *
 * @param finished every transcription with an endpoint that has a final state, read after the last delivery
 */
export function auditDeliveries(
  finished: readonly { id: string; state: string }[],
  received: readonly Received[],
  secret: string,
): DeliveryAudit {
  const states = new Map(finished.map(({ id, state }) => [id, state]));
  const firsts = new Map<string, Received>();
  const audit: DeliveryAudit = { missing: [], untrue: [], inconsistent: [], forged: [], duplicates: 0 };
  for (const one of received) {
    if (!isAuthentic(one, secret)) audit.forged.push(one.id);
    const { type, data } = JSON.parse(one.body) as { type: string; data: { id: string; state: string } };
    if (states.get(data.id) !== data.state || type !== `transcription.${data.state}`)
      audit.untrue.push(data.id);
    const first = firsts.get(data.id);
    if (!first) firsts.set(data.id, one);
    else if (first.id === one.id && first.body === one.body) audit.duplicates++;
    else audit.inconsistent.push(data.id);
  }
  audit.missing = finished.map(({ id }) => id).filter((id) => !firsts.has(id));
  return audit;
}

/**
 * Starts a program and kills it (SIGKILL) at a random moment, again and again.
 *
 * @param start starts it; resolves once it works
 */
export async function killAtRandom(options: {
  start: () => Promise<Bun.Subprocess>;
  rounds: number;
  minMs: number;
  maxMs: number;
  random?: () => number;
}): Promise<void> {
  const { start, rounds, minMs, maxMs, random = Math.random } = options;
  for (let round = 0; round < rounds; round++) {
    const program = await start();
    await Bun.sleep(minMs + (maxMs - minMs) * random());
    if (program.exitCode !== null) throw new Error(`the program ended by itself with ${program.exitCode}`);
    program.kill("SIGKILL");
    await program.exited;
  }
}
