// Uses the installed package `shruti-client` as a customer's program does, and prints what it saw as JSON. src/e2e/client-packages.test.ts
// runs it with Node and with Bun, through a proxy that cuts the first connection with a large body.
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createSilentServer } from "node:net";
import * as api from "shruti-client";
import { openFile } from "shruti-client/files";

const { API_URL, API_KEY, LONG, SHORT } = process.env;
const seen = {};
/** Every exchange of the client: method, path, status, and the fields that matter. */
const exchanges = [];
async function watched(url, init) {
  const headers = new Headers(init.headers);
  const entry = { method: init.method, path: new URL(url).pathname, offset: headers.get("upload-offset") };
  entry.key = headers.get("idempotency-key");
  exchanges.push(entry);
  const response = await fetch(url, init);
  entry.status = response.status;
  entry.retryAfter = response.headers.get("retry-after");
  return response;
}
const shruti = new api.Shruti({ baseUrl: `${API_URL}/`, apiKey: API_KEY, fetch: watched });
const caught = async (act) => {
  try {
    await act();
    return "nothing was thrown";
  } catch (error) {
    const { name, status, code, detail, requestId, message } = error;
    return { name, status, code, detail, requestId, message, isApiError: error instanceof api.ApiError };
  }
};

// The proxy cuts the connection while the first piece is sent.
const file = await openFile(LONG);
const sha256 = await file.sha256();
const upload = await shruti.upload(file, { sha256 });
seen.upload = { state: upload.state, bytes: upload.bytes };
seen.offsets = exchanges.filter(({ method }) => method === "PATCH").map(({ offset }) => Number(offset));

// A program that ends in the middle, and another one that continues.
const stop = new AbortController();
let created;
const stopped = await caught(() =>
  shruti.upload(file, {
    signal: stop.signal,
    onCreated: (made) => {
      created = JSON.parse(JSON.stringify(made));
    },
    onProgress: (bytes) => {
      if (bytes > 0) stop.abort();
    },
  }),
);
exchanges.length = 0;
const resumed = await shruti.upload(file, { resume: created });
seen.stopped = stopped.name;
seen.resumed = {
  isSame: resumed.id === created.id,
  state: resumed.state,
  offsets: exchanges.filter(({ method }) => method === "PATCH").map(({ offset }) => Number(offset)),
};

// A webhook of the server, checked by the package.
const deliveries = [];
const receiver = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  deliveries.push({ headers: request.headers, body });
  response.writeHead(204).end();
  receiver.emit("delivery");
}).listen(0, "127.0.0.1");
await once(receiver, "listening");
const delivered = once(receiver, "delivery");
const hook = await shruti.createWebhookEndpoint({ url: `http://127.0.0.1:${receiver.address().port}/hook` });
const order = { audio: { upload_id: upload.id }, language: "en", webhook_endpoint_id: hook.id };
const idempotencyKey = `scenario-${upload.id}`;
const started = await shruti.createTranscription(order, { idempotencyKey });
const again = await shruti.createTranscription(order, { idempotencyKey });
const states = [];
const ended = await shruti.waitForTranscription(started.id, { onProgress: ({ state }) => states.push(state) });
seen.transcription = { isSame: again.id === started.id, state: ended.state, last: states.at(-1) };
const result = await shruti.getTranscriptionResult(started.id);
seen.text = result.text;
seen.subtitles = await shruti.getTranscriptionResultText(started.id, "srt");
await delivered;
const { headers, body } = deliveries[0];
const { secret } = hook;
const event = await api.verifyWebhook({ secret, headers, body });
seen.event = { type: event.type, isOwn: event.data.id === started.id };
const tomorrow = new Date(Date.now() + 86_400_000);
const other = `whsec_${Buffer.alloc(32).toString("base64")}`;
seen.forged = {
  body: await caught(() => api.verifyWebhook({ secret, headers, body: body.replace("completed", "cancelled") })),
  secret: await caught(() => api.verifyWebhook({ secret: other, headers, body })),
  late: await caught(() => api.verifyWebhook({ secret, headers, body, now: tomorrow })),
  none: await caught(() => api.verifyWebhook({ secret, headers: {}, body })),
};
const rotated = await shruti.rotateWebhookSecret(hook.id);
const both = [rotated.secret, secret];
seen.rotated = (await api.verifyWebhook({ secret: both, headers, body })).type;
await shruti.deleteWebhookEndpoint(hook.id);
receiver.close();

// Everything in one call; then the list, one element a page.
seen.transcribed = (await shruti.transcribe(new Blob([await readFile(SHORT)]), { language: "en" })).text;
const listed = [];
for await (const { id } of shruti.iterateTranscriptions({ limit: 1 })) listed.push(id);
seen.listed = { count: listed.length, distinct: new Set(listed).size };

// Refusals.
seen.refused = await caught(() => shruti.createTranscription({ ...order, language: "xx" }));
seen.notFound = await caught(() => shruti.getTranscription("tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C"));
seen.noIdentifier = await caught(() => shruti.getTranscription(".."));
const stranger = new api.Shruti({ baseUrl: API_URL, apiKey: "shr_wrong_key" });
seen.wrongKey = await caught(() => stranger.listModels());
const nowhere = new api.Shruti({ baseUrl: "http://127.0.0.1:9", apiKey: API_KEY, maxRetries: 1 });
seen.nowhere = await caught(() => nowhere.listModels());
seen.noAudio = await caught(() => shruti.upload(new Blob(["no recording"])));
const silent = createSilentServer(() => {}).listen(0, "127.0.0.1");
await once(silent, "listening");
const patient = new api.Shruti({ baseUrl: `http://127.0.0.1:${silent.address().port}`, apiKey: API_KEY });
seen.slow = await caught(() => patient.listModels({ timeoutMs: 100, maxRetries: 0 }));
silent.close();
seen.printed = JSON.stringify(shruti).includes(API_KEY);

// More requests than the key may send at once, and more synchronous ones than there are places.
exchanges.length = 0;
const balances = await Promise.all(Array.from({ length: 16 }, () => shruti.getUsage({ limit: 1 })));
seen.limited = {
  answered: balances.length,
  refused: exchanges.filter(({ status, retryAfter }) => status === 429 && Number(retryAfter) >= 1).length,
};
seen.limitedAtOnce = await caught(() =>
  Promise.all(Array.from({ length: 16 }, () => shruti.getUsage({ limit: 1 }, { maxRetries: 0 }))),
);
exchanges.length = 0;
const short = new Blob([await readFile(SHORT)]);
const texts = await Promise.all(
  Array.from({ length: 4 }, () => shruti.transcribeAudio({ file: short, language: "en" }, { maxRetries: 20 })),
);
const keysOf = (status) => exchanges.filter((each) => each.status === status).map(({ key }) => key);
seen.full = {
  texts: [...new Set(texts.map(({ text }) => text))].length,
  refused: keysOf(503).length,
  reused: keysOf(200).filter((key) => keysOf(503).includes(key)).length,
  distinct: new Set(keysOf(200)).size,
};
await file.close();
console.log(JSON.stringify(seen));
