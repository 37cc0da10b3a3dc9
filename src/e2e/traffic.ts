import { type ApiClient, ApiError } from "../testing/answers/api-client.ts";
import { type RunningServer, reached } from "./kit.ts";
import { sampleBytes } from "./samples.ts";
import { requireDeleted, type Sending, send, settleSending } from "./traffic-sending.ts";

type Endpoint = { id: string; secret: string };

/** An organization as its client sees it. */
export type Customer = {
  key: string;
  projectId: string;
  /** The first exists from the start. Others are registered during the traffic. */
  endpoints: Endpoint[];
  /** Address for new endpoints. */
  receiverUrl: string;
  recordings: { uploadId: string; language: string; sample: string }[];
};

/** How a transcription of the traffic ended. */
export type Ended = {
  id: string;
  state: string;
  endpointId: string;
  customer: Customer;
  /** A client asked to cancel it, and the answer may have been lost. */
  isCancelled: boolean;
  isDeleted: boolean;
  text: string | undefined;
  /** The upload whose words it must have. */
  expected: string;
};

/** A transcription that a client wanted to start. `id` is set once a response names it. */
type Intent = {
  customer: Customer;
  idempotencyKey: string;
  endpointId: string;
  uploadId: string;
  /** A recording of the customer with the same words. */
  expected: string;
  language: string;
  id: string | undefined;
  isCancelled: boolean;
  /** A client asked to delete it and was not refused. The response may have been lost. */
  isDeleted: boolean;
};

/** A synchronous request with its key. `text` is set once a response has it. */
type Spoken = { customer: Customer; idempotencyKey: string; text: string | undefined };

export type TrafficOptions = {
  /** Number of starts of one customer in one round. It is low enough for the last server to finish all work. */
  startsPerRush: number;
  dataDir: string;
};

const pick = <T>(items: readonly T[]): T => items[Math.floor(Math.random() * items.length)] as T;

function request({ uploadId, language, endpointId }: Intent) {
  return { audio: { upload_id: uploadId }, language, webhook_endpoint_id: endpointId };
}

async function start(api: ApiClient, intent: Intent): Promise<string> {
  const { body } = await api.start(request(intent), intent.idempotencyKey);
  if (intent.id !== undefined && intent.id !== body.id) {
    throw new Error(`key ${intent.idempotencyKey} belongs to ${intent.id} and ${body.id}`);
  }
  intent.id = body.id;
  return body.id;
}

async function cancel(api: ApiClient, intent: Intent, id: string): Promise<void> {
  intent.isCancelled = true;
  await api.cancel(id);
}

/** Unfinished work cannot be deleted, so the server refuses. */
async function remove(api: ApiClient, intent: Intent): Promise<void> {
  if (intent.id === undefined) return;
  const wasDeleted = intent.isDeleted;
  intent.isDeleted = true;
  try {
    await api.remove(intent.id);
  } catch (error) {
    if (!(error instanceof ApiError && error.code === "conflict")) throw error;
    intent.isDeleted = wasDeleted;
  }
}

async function speak(api: ApiClient, one: Spoken): Promise<void> {
  try {
    const headers = { "idempotency-key": one.idempotencyKey };
    const { text } = await api.transcribe(sampleBytes("02-hi"), { language: "hi" }, headers);
    if (one.text !== undefined && one.text !== text) throw new Error(`${one.idempotencyKey} has two results`);
    one.text = text;
  } catch (error) {
    // All places may be taken, or a kill may have interrupted it. Any other error is a fault.
    const passes = ["capacity_unavailable", "timeout", "conflict"];
    if (!(error instanceof ApiError && passes.includes(error.code)) || one.text !== undefined) throw error;
  }
}

/**
 * Runs clients that upload, start, cancel, delete, register endpoints and send synchronous requests until the server is
 * gone, and remembers the responses. Requests without a response are repeated later with their keys, as clients do.
 */
export function createTraffic(customers: readonly Customer[], { startsPerRush, dataDir }: TrafficOptions) {
  const intents: Intent[] = [];
  const sendings: Sending[] = [];
  const spoken: Spoken[] = [];
  const undisturbed: string[] = [];

  function intend(customer: Customer, recording: Customer["recordings"][number], uploadId: string): Intent {
    const intent: Intent = {
      customer,
      idempotencyKey: crypto.randomUUID(),
      endpointId: pick(customer.endpoints).id,
      uploadId,
      expected: recording.uploadId,
      language: recording.language,
      id: undefined,
      isCancelled: false,
      isDeleted: false,
    };
    intents.push(intent);
    return intent;
  }

  /** Alternates which comes first, because later requests of a round seldom reach the server before the kill. */
  async function rushOf(customer: Customer, api: ApiClient): Promise<void> {
    const isElseFirst = Math.random() < 0.5;
    if (isElseFirst) await somethingElse(customer, api);
    await starts(customer, api);
    if (!isElseFirst) await somethingElse(customer, api);
  }

  async function starts(customer: Customer, api: ApiClient): Promise<void> {
    for (let count = 0; count < startsPerRush; count++) {
      const recording = pick(customer.recordings);
      const intent = intend(customer, recording, recording.uploadId);
      const id = await start(api, intent);
      const chance = Math.random();
      if (chance < 0.25) await cancel(api, intent, id);
      else if (chance < 0.4) {
        const one: Spoken = { customer, idempotencyKey: crypto.randomUUID(), text: undefined };
        spoken.push(one);
        await speak(api, one);
      } else await api.get(id);
    }
  }

  /** Makes traffic other than starts: another recording with all its requests, a deletion, an endpoint. */
  async function somethingElse(customer: Customer, api: ApiClient): Promise<void> {
    const chance = Math.random();
    if (chance < 0.45) {
      const recording = pick(customer.recordings);
      const { id: uploadId, isComplete } = await send(api, customer.key, recording.sample, sendings);
      if (!isComplete) return;
      const intent = intend(customer, recording, uploadId);
      const id = await start(api, intent);
      if (Math.random() < 0.3) {
        await cancel(api, intent, id);
        await remove(api, intent);
      }
    } else if (chance < 0.75) {
      const own = intents.filter((one) => one.customer === customer && one.uploadId !== one.expected);
      if (own.length > 0) await remove(api, pick(own));
    } else if (chance < 0.8) {
      const url = `${customer.receiverUrl}/${crypto.randomUUID()}`;
      const { body } = await api.call<Endpoint>("POST", "/v1/webhook_endpoints", { url });
      customer.endpoints.push({ id: body.id, secret: body.secret });
    }
  }

  return {
    /** Makes the traffic of all customers at once. Resolves when all are done or the server is gone. */
    async rush(server: RunningServer): Promise<void> {
      await Promise.all(
        customers.map((customer) => rushOf(customer, server.api(customer.key)).catch(onlyLostConnections)),
      );
    },

    undisturbedTexts: (server: RunningServer) => undisturbedTexts(customers, server, undisturbed),
    undisturbedIds: () => undisturbed,
    counts: () => ({ starts: intents.length, uploads: sendings.length, synchronous: spoken.length }),
    synchronousOf: (customer: Customer) => spoken.filter((one) => one.customer === customer),

    /**
     * Repeats requests without a response. Each is accepted exactly once, then or now. Returns what was confirmed before a
     * kill and is missing now.
     */
    async settleUnanswered(server: RunningServer): Promise<string[]> {
      const lost: string[] = [];
      for (const sending of sendings) lost.push(...(await settleSending(server.api(sending.key), sending)));
      for (const intent of intents) {
        if (!intent.isDeleted) await start(server.api(intent.customer.key), intent);
      }
      for (const one of spoken) await speak(server.api(one.customer.key), one);
      return lost;
    },

    /** Waits until everything that was started has ended. Everything that was accepted must exist. */
    async untilAllEnded(server: RunningServer, timeoutMs = 300_000): Promise<Ended[]> {
      const ended: Ended[] = [];
      for (const intent of intents) {
        const { id, customer, isCancelled, isDeleted, uploadId, expected, endpointId } = intent;
        if (id === undefined) throw new Error("an intent was never settled");
        const api = server.api(customer.key);
        const { state } = await reached(api, id, undefined, timeoutMs);
        if (isDeleted) await requireDeleted(api, dataDir, id, uploadId);
        const text = state === "completed" && !isDeleted ? (await api.result(id)).text : undefined;
        ended.push({ id, state, endpointId, customer, isCancelled, isDeleted, text, expected });
      }
      return ended;
    },

    charged: (server: RunningServer) => chargedTo(customers, server),
  };
}

/** Returns the words of each recording by its upload, and notes the transcriptions in `ids`. */
async function undisturbedTexts(
  customers: readonly Customer[],
  server: RunningServer,
  ids: string[],
): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const customer of customers) {
    const api = server.api(customer.key);
    for (const { uploadId, language } of customer.recordings) {
      const { body } = await api.start({ audio: { upload_id: uploadId }, language });
      ids.push(body.id);
      await reached(api, body.id, ["completed"]);
      texts.set(uploadId, (await api.result(body.id)).text);
    }
  }
  return texts;
}

/** Returns the sum over all usage events, and the transcriptions that have more than one. */
async function chargedTo(
  customers: readonly Customer[],
  server: RunningServer,
): Promise<{ paise: number; twice: string[] }> {
  let paise = 0;
  const twice: string[] = [];
  for (const { key } of customers) {
    const seen = new Set<string>();
    let after = "";
    do {
      const page = await server.api(key).usage(`?limit=100${after && `&after=${after}`}`);
      for (const { transcription_id, amount_paise } of page.data) {
        if (seen.has(transcription_id)) twice.push(transcription_id);
        seen.add(transcription_id);
        paise += amount_paise;
      }
      after = page.next ?? "";
    } while (after !== "");
  }
  return { paise, twice };
}

/** Ignores the failure of a request during which the server was killed. Any response that arrived must be correct. */
function onlyLostConnections(error: unknown): void {
  if (error instanceof ApiError) throw error;
  if (error instanceof Error && /^(PUT|tus|key) /.test(error.message)) throw error;
}
