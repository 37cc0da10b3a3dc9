import type { TicketSnapshot, Tickets } from "./tickets.ts";

/** Removes tickets that stay in the stream although no caller wants them, such as those of a cancelled transcription. */
export type Orphans = {
  /** @param wanted subjects of the jobs that callers wait for */
  sweep(stream: TicketSnapshot, wanted: ReadonlySet<string>, now: number): Promise<void>;
  count(): number;
};

/** @param keptMs callers come within this time, such as after a start */
export function createOrphans(tickets: Pick<Tickets, "remove">, keptMs: number): Orphans {
  /** Tickets without a caller, and since when. */
  const orphans = new Map<string, number>();
  return {
    async sweep({ subjects }, wanted, now) {
      for (const subject of orphans.keys()) {
        if (!subjects.has(subject) || wanted.has(subject)) orphans.delete(subject);
      }
      for (const subject of subjects) {
        if (wanted.has(subject)) continue;
        const since = orphans.get(subject) ?? now;
        orphans.set(subject, since);
        if (now - since > keptMs) await tickets.remove(subject);
      }
    },
    count: () => orphans.size,
  };
}
