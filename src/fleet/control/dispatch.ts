import { createPlaces } from "../../admission/places.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { Link } from "../link.ts";
import { someJobs, write } from "../messages.ts";
import type { Subjects } from "../subjects.ts";
import { type TicketDeps, ticketOf } from "./ticket-of.ts";
import type { Tickets } from "./tickets.ts";
import type { WantedJob, WantedJobs } from "./wanted-jobs.ts";

export type DispatchDeps = TicketDeps & {
  link: Pick<Link, "publish">;
  tickets: Tickets;
  subjects: Subjects;
  jobs: WantedJobs;
};

/** Publishes tickets, takes them back, and stops jobs at workers. */
export type Dispatch = {
  /** Publishes the ticket of a job, again and again until the server has it or the job has ended. */
  send(wanted: WantedJob): Promise<void>;
  /** Removes the ticket of a job from the stream, and stops workers that have it. Never rejects. */
  withdraw(wanted: WantedJob): Promise<void>;
  /** Reports whether a job was withdrawn lately, and has not been sent again. */
  isWithdrawn(id: string): boolean;
  /** Asks all workers to stop jobs. */
  cancel(jobs: readonly string[]): void;
  counts(): { published: number; repeated: number; adopted: number };
};

/** A bound on memory: beats name withdrawn jobs for seconds at most. */
const MAX_WITHDRAWN = 10_000;
/** Tickets on their way to the server at once. Hundreds would hold the event loop together, when a fleet begins. */
const MOST_PUBLISHING = 16;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;

export function createDispatch(deps: DispatchDeps): Dispatch {
  const { link, tickets, subjects, jobs } = deps;
  const counts = { published: 0, repeated: 0, adopted: 0 };
  const sending = new Set<WantedJob>();
  const withdrawn = new Set<string>();
  /** Removals of tickets that have not ended. A new ticket of the same job must come after them. */
  const removing = new Map<string, Promise<void>>();
  const ready = new Set<string>();
  const places = createPlaces(MOST_PUBLISHING);

  async function publish(wanted: WantedJob): Promise<void> {
    if (!ready.has(wanted.queue)) {
      await tickets.ensure(wanted.queue);
      ready.add(wanted.queue);
    }
    withdrawn.delete(wanted.id);
    const { sequence, isNew } = await tickets.publish(wanted.subject, write(ticketOf(wanted, deps)));
    counts.published++;
    // A ticket from before a restart: its worker, if it has one, has the same job.
    if (!isNew) counts.adopted++;
    wanted.sequence = sequence;
    wanted.publishedAt = performance.now();
    wanted.deliveredAt = undefined;
    // The job may have ended meanwhile. No worker may recognize it then.
    if (jobs.get(wanted.id) !== wanted) void withdraw(wanted);
  }

  /** Publishes a ticket once few others are on their way. Those that a client waits for go at once. */
  async function publishInTurn(wanted: WantedJob): Promise<void> {
    if (wanted.urgency === "s") return publish(wanted);
    const leave = await places.enter();
    try {
      if (jobs.get(wanted.id) === wanted) await publish(wanted);
    } finally {
      leave();
    }
  }

  function withdraw({ id, subject }: WantedJob): Promise<void> {
    if (withdrawn.size >= MAX_WITHDRAWN) withdrawn.clear();
    withdrawn.add(id);
    cancel([id]);
    // A server that cannot be reached loses the ticket, or a beat shows that a worker has it.
    const removed = tickets
      .remove(subject)
      .catch(() => {})
      .finally(() => {
        if (removing.get(id) === removed) removing.delete(id);
      });
    removing.set(id, removed);
    return removed;
  }

  function cancel(ids: readonly string[]): void {
    if (ids.length > 0) link.publish(subjects.cancel, write({ v: deps.protocol(), jobs: someJobs(ids) }));
  }

  return {
    async send(wanted) {
      if (sending.has(wanted)) return;
      sending.add(wanted);
      if (wanted.publishedAt !== undefined) counts.repeated++;
      try {
        await removing.get(wanted.id);
        for (let pause = FIRST_PAUSE_MS; jobs.get(wanted.id) === wanted; pause *= 2) {
          try {
            return await publishInTurn(wanted);
          } catch (error) {
            // The server may have lost its memory: the next try makes the stream again.
            if (/no responders|no stream|not found|503/i.test(errorMessage(error))) ready.clear();
            await Bun.sleep(Math.min(pause, LONGEST_PAUSE_MS));
          }
        }
      } finally {
        sending.delete(wanted);
      }
    },
    withdraw,
    isWithdrawn: (id) => withdrawn.has(id),
    cancel,
    counts: () => ({ ...counts }),
  };
}
