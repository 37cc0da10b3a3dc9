import type { ConsumerInfo, JetStreamClient, JetStreamManager } from "@nats-io/jetstream";
import {
  AckPolicy,
  DiscardPolicy,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
} from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Link } from "../link.ts";
import { type Subjects, URGENCIES, type Urgency } from "../subjects.ts";

/** What the stream holds at one moment. */
export type TicketSnapshot = {
  /** Subjects of tickets that no worker has acknowledged. */
  subjects: ReadonlySet<string>;
  /** Reports whether a ticket has been given to a worker. */
  isDelivered(modelSha256: string, urgency: Urgency, sequence: number): boolean;
};

/**
 * The stream of tickets. It lies in the server's memory, and is made again whenever it is missing: the database is the
 * queue, and a lost ticket is published again.
 */
export type Tickets = {
  /**
   * Publishes a ticket and returns its number in the stream.
   *
   * @throws Error when the server is not reachable, or has lost the stream
   */
  publish(subject: string, data: Uint8Array): Promise<{ sequence: number; isNew: boolean }>;
  /** Removes a ticket that no worker has acknowledged. Does nothing when there is none. */
  remove(subject: string): Promise<void>;
  /** Makes the stream, and the consumers of a model, where they are missing. */
  ensure(modelSha256: string): Promise<void>;
  /** Returns the models whose consumers were made, by SHA-256. */
  models(): readonly string[];
  /** Reads the stream, and makes again what is missing. @throws Error when the server is not reachable */
  snapshot(wanted: Iterable<string>): Promise<TicketSnapshot>;
};

const NANOSECONDS = 1_000_000;
const API_TIMEOUT_MS = 3_000;
const MAX_BYTES = 64 * 1024 * 1024;
const MAX_AGE_MS = 3_600_000;
const ACK_WAIT_MS = 30_000;
/** Above the number of places of any fleet. The server's own defaults are 512 and 1000. */
const MANY = 10_000;
/** Error of the server for a second ticket with the subject of one that is there. */
const SUBJECT_TAKEN = /maximum messages per subject/i;

type Api = { streams: JetStreamManager; publisher: JetStreamClient };

export function createTickets(
  link: Pick<Link, "connection" | "whileUp">,
  subjects: Subjects,
  replicas: number,
): Tickets {
  const { stream } = subjects;
  const models = new Set<string>();
  const apis = new WeakMap<NatsConnection, Promise<Api>>();

  function api(): Promise<Api> {
    const connection = link.connection();
    if (!connection) return Promise.reject(new Error("not connected"));
    const found = apis.get(connection) ?? openApi(connection);
    apis.set(connection, found);
    // A failure must not be kept: the next call tries again.
    found.catch(() => apis.delete(connection));
    return found;
  }

  async function addConsumer({ streams }: Api, sha256: string, urgency: Urgency): Promise<ConsumerInfo> {
    return streams.consumers.add(stream, {
      durable_name: subjects.consumer(sha256, urgency),
      filter_subject: subjects.jobsOf(sha256, urgency),
      ack_policy: AckPolicy.Explicit,
      ack_wait: ACK_WAIT_MS * NANOSECONDS,
      // A ticket that ends a worker must not end the next. The control plane decides what is repeated.
      max_deliver: 1,
      max_ack_pending: MANY,
      max_waiting: MANY,
    });
  }

  async function consumerInfo(found: Api, sha256: string, urgency: Urgency): Promise<ConsumerInfo> {
    try {
      return await found.streams.consumers.info(stream, subjects.consumer(sha256, urgency));
    } catch (error) {
      if (!isMissing(error)) throw error;
      return addConsumer(found, sha256, urgency);
    }
  }

  async function ensureStream(found: Api): Promise<void> {
    try {
      await found.streams.streams.info(stream);
    } catch (error) {
      if (!isMissing(error)) throw error;
      await found.streams.streams.add(streamConfig(subjects, replicas));
    }
  }

  async function sequenceOf(found: Api, subject: string): Promise<number | undefined> {
    return (await found.streams.streams.getMessage(stream, { last_by_subj: subject }))?.seq;
  }

  const direct: Tickets = {
    async publish(subject, data) {
      const found = await api();
      try {
        const { seq } = await found.publisher.publish(subject, data, { timeout: API_TIMEOUT_MS });
        return { sequence: seq, isNew: true };
      } catch (error) {
        if (!SUBJECT_TAKEN.test(String(error))) throw error;
        const sequence = await sequenceOf(found, subject);
        if (sequence === undefined) throw new Error("the ticket is gone");
        return { sequence, isNew: false };
      }
    },

    // Not by a purge of the subject: up to 2.9.11, the server then counts all tickets of the model as delivered. The number is
    // read, because a server that has started again counts from one: a number from before would be another job's ticket.
    async remove(subject) {
      const found = await api();
      const sequence = await sequenceOf(found, subject);
      if (sequence === undefined) return;
      await found.streams.streams.deleteMessage(stream, sequence, false).catch((error: unknown) => {
        if (!isMissing(error)) throw error;
      });
    },

    models: () => [...models],

    async ensure(sha256) {
      const found = await api();
      models.add(sha256);
      await ensureStream(found);
      for (const urgency of URGENCIES) await consumerInfo(found, sha256, urgency);
    },

    async snapshot(wanted) {
      const found = await api();
      await ensureStream(found);
      const delivered = new Map<string, number>();
      // The consumers are read before the stream: what they have delivered is then in the stream's numbers.
      for (const sha256 of wanted) {
        for (const urgency of URGENCIES) {
          const { delivered: last } = await consumerInfo(found, sha256, urgency);
          delivered.set(subjects.consumer(sha256, urgency), last.stream_seq);
        }
      }
      const { state } = await found.streams.streams.info(stream, { subjects_filter: subjects.jobs });
      for (const [consumer, sequence] of delivered) {
        // The server has lost the stream and kept the consumer, which would wait for numbers that do not come.
        if (sequence > state.last_seq) await found.streams.consumers.delete(stream, consumer);
      }
      return {
        subjects: new Set(Object.keys(state.subjects ?? {})),
        isDelivered: (sha256, urgency, sequence) =>
          sequence <= (delivered.get(subjects.consumer(sha256, urgency)) ?? 0),
      };
    },
  };
  return {
    publish: (subject, data) => link.whileUp(direct.publish(subject, data)),
    remove: (subject) => link.whileUp(direct.remove(subject)),
    models: direct.models,
    ensure: (sha256) => link.whileUp(direct.ensure(sha256)),
    snapshot: (wanted) => link.whileUp(direct.snapshot(wanted)),
  };
}

async function openApi(connection: NatsConnection): Promise<Api> {
  const streams = await jetstreamManager(connection, { timeout: API_TIMEOUT_MS, checkAPI: false });
  return { streams, publisher: jetstream(connection, { timeout: API_TIMEOUT_MS }) };
}

function isMissing(error: unknown): boolean {
  return /not found|no message found/i.test(String(error));
}

function streamConfig({ stream, jobs }: Subjects, replicas: number) {
  return {
    name: stream,
    subjects: [jobs],
    retention: RetentionPolicy.Workqueue,
    storage: StorageType.Memory,
    discard: DiscardPolicy.New,
    discard_new_per_subject: true,
    max_msgs_per_subject: 1,
    max_bytes: MAX_BYTES,
    max_age: MAX_AGE_MS * NANOSECONDS,
    num_replicas: replicas,
  };
}
