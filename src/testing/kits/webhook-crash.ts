import { isAuthentic, type Received } from "./webhook-kit.ts";

/** Compares the deliveries of a receiver with the database. Each list is empty where there is no fault. */
export type DeliveryAudit = {
  /** Finished transcriptions without an event. */
  missing: string[];
  /** Events with another state than the final one, or about a transcription that has not finished. */
  untrue: string[];
  /** Transcriptions whose events had more than one `webhook-id`, or different bodies. */
  inconsistent: string[];
  /** Deliveries whose signature does not verify. */
  forged: string[];
  /** Deliveries beyond the first of each event: allowed, and expected after a crash. */
  duplicates: number;
};

/**
 * Checks that each event was delivered at least once, with the final state and under one id.
 *
 * @param finished all transcriptions in a final state that have an endpoint, read after the last delivery
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
 * @param start starts the program; resolves once it works
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
