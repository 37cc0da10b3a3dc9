/** Names in the messaging server. A fleet's subjects begin with its name, so fleets can share a server. */

/** The form of the names of fleets and workers: parts of subjects. */
export const NAME_PATTERN = /^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/;

/** Asynchronous work, and work for which a client waits. Each has consumers of its own. */
export type Urgency = "a" | "s";
export const URGENCIES: readonly Urgency[] = ["a", "s"];

/** Characters of a model's SHA-256 in names. */
const SHORT_HASH = 16;

export type Subjects = ReturnType<typeof subjectsOf>;

/** Returns the names of a fleet. */
export function subjectsOf(fleet: string) {
  const root = `shruti.${fleet}`;
  return {
    stream: `SHRUTI_${fleet}`,
    /** All tickets. */
    jobs: `${root}.job.>`,
    /** One ticket: no two tickets have the same subject. */
    job: (modelSha256: string, urgency: Urgency, job: string) =>
      `${root}.job.${modelSha256.slice(0, SHORT_HASH)}.${urgency}.${job}`,
    jobsOf: (modelSha256: string, urgency: Urgency) =>
      `${root}.job.${modelSha256.slice(0, SHORT_HASH)}.${urgency}.*`,
    consumer: (modelSha256: string, urgency: Urgency) => `m_${modelSha256.slice(0, SHORT_HASH)}_${urgency}`,
    beat: (worker: string) => `${root}.beat.${worker}`,
    done: (worker: string) => `${root}.done.${worker}`,
    hello: (worker: string) => `${root}.hello.${worker}`,
    /** Subject of messages from the control plane to one worker. */
    order: (worker: string) => `${root}.order.${worker}`,
    /** Subject of messages from the control plane to all workers: jobs that must stop. */
    cancel: `${root}.cancel`,
  };
}

/** Returns the last part of a subject, such as the worker of a beat. */
export function lastPart(subject: string): string {
  return subject.slice(subject.lastIndexOf(".") + 1);
}

/** Returns the beginning of the subjects at which a member receives replies. Members cannot read those of others. */
export function inboxOf(member: string): string {
  return `_INBOX.${member}`;
}

/** The member that `shruti serve` is. No worker can have this name. */
export const CONTROL_MEMBER = "control";
