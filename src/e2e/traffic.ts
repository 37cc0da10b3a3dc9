import { type ApiClient, ApiError } from "../testing/api-client.ts";
import { type RunningServer, reached } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** An organization as its client sees it. */
export type Customer = {
  key: string;
  projectId: string;
  endpointId: string;
  secret: string;
  recordings: { uploadId: string; language: string }[];
};

/** How a transcription of the traffic ended. */
export type Ended = {
  id: string;
  state: string;
  endpointId: string;
  /** Somebody asked to cancel it, and the answer may have been lost. */
  isCancelled: boolean;
  text: string | undefined;
  /** The upload whose words it must have. */
  expected: string;
};

/** A start that a client meant; `id` once an answer told it. */
type Intent = {
  customer: Customer;
  idempotencyKey: string;
  uploadId: string;
  language: string;
  id: string | undefined;
  isCancelled: boolean;
};

/** Starts of one customer in one rush; short enough for the last server to catch up. */
const STARTS_PER_RUSH = 6;

/**
 * Clients that start, cancel and ask synchronously until the server goes away, and remember what they were told.
 * What got no answer is asked again with its key later, as a real client would.
 */
export function createTraffic(customers: readonly Customer[]) {
  const intents: Intent[] = [];
  const undisturbed: string[] = [];

  function request({ uploadId, language, customer }: Intent) {
    return { audio: { upload_id: uploadId }, language, webhook_endpoint_id: customer.endpointId };
  }

  async function start(api: ApiClient, intent: Intent): Promise<string> {
    const { body } = await api.start(request(intent), intent.idempotencyKey);
    if (intent.id !== undefined && intent.id !== body.id) {
      throw new Error(`key ${intent.idempotencyKey} stands for ${intent.id} and ${body.id}`);
    }
    intent.id = body.id;
    return body.id;
  }

  async function rushOf(customer: Customer, api: ApiClient): Promise<void> {
    for (let count = 0; count < STARTS_PER_RUSH; count++) {
      const recording = customer.recordings[count % customer.recordings.length];
      if (!recording) throw new Error("a customer without recordings");
      const intent: Intent = {
        customer,
        idempotencyKey: crypto.randomUUID(),
        ...recording,
        id: undefined,
        isCancelled: false,
      };
      intents.push(intent);
      const id = await start(api, intent);
      if (Math.random() < 0.25) {
        intent.isCancelled = true;
        await api.cancel(id);
      } else if (Math.random() < 0.2) {
        await synchronous(api);
      } else {
        await api.get(id);
      }
    }
  }

  return {
    /** Traffic of all customers at once; resolves when they have had enough or the server is gone. */
    async rush(server: RunningServer): Promise<void> {
      await Promise.all(
        customers.map((customer) => rushOf(customer, server.api(customer.key)).catch(onlyLostConnections)),
      );
    },

    /** The words of each recording by its upload. */
    async undisturbedTexts(server: RunningServer): Promise<Map<string, string>> {
      const texts = new Map<string, string>();
      for (const customer of customers) {
        const api = server.api(customer.key);
        for (const { uploadId, language } of customer.recordings) {
          const { body } = await api.start({ audio: { upload_id: uploadId }, language });
          undisturbed.push(body.id);
          await reached(api, body.id, ["completed"]);
          texts.set(uploadId, (await api.result(body.id)).text);
        }
      }
      return texts;
    },
    undisturbedIds: () => undisturbed,

    /** Asks again for what got no answer: accepted then or now, once. */
    async settleUnanswered(server: RunningServer): Promise<void> {
      for (const intent of intents) await start(server.api(intent.customer.key), intent);
    },

    /** The ends of all that was started; everything accepted must be there. */
    async untilAllEnded(server: RunningServer): Promise<Ended[]> {
      const ended: Ended[] = [];
      for (const { id, customer, isCancelled, uploadId } of intents) {
        if (id === undefined) throw new Error("an intent was never settled");
        const api = server.api(customer.key);
        const { state } = await reached(api, id, undefined, 300_000);
        const text = state === "completed" ? (await api.result(id)).text : undefined;
        ended.push({ id, state, endpointId: customer.endpointId, isCancelled, text, expected: uploadId });
      }
      return ended;
    },

    /** Sum over all usage events, each of which must stand for another transcription. */
    async chargedPaise(server: RunningServer): Promise<number> {
      let sum = 0;
      for (const { key } of customers) {
        const seen = new Set<string>();
        let after = "";
        do {
          const page = await server.api(key).usage(`?limit=100${after && `&after=${after}`}`);
          for (const { transcription_id, amount_paise } of page.data) {
            if (seen.has(transcription_id)) throw new Error(`${transcription_id} has two usage events`);
            seen.add(transcription_id);
            sum += amount_paise;
          }
          after = page.next ?? "";
        } while (after !== "");
      }
      return sum;
    },
  };
}

async function synchronous(api: ApiClient): Promise<void> {
  try {
    await api.transcribe(sampleBytes("02-hi"), { language: "hi" });
  } catch (error) {
    // Its places may be taken; whatever else it is told is a fault.
    if (!(error instanceof ApiError && error.code === "capacity_unavailable")) throw error;
  }
}

/** The server was killed under the request; every answer that did come must be a good one. */
function onlyLostConnections(error: unknown): void {
  if (error instanceof ApiError) throw error;
}
