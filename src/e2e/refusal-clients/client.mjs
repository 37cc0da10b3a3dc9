/**
 * Sends one large request several times with one kind of client and prints how often each answer was seen, as JSON.
 * Node or Bun runs it: `client.mjs '{"client": "fetch", "url", "method", "headers", "bytes", "isForm", "isChunked",
 * "tries", "again"}'`. With the status `again` the server accepted the request, so the try is repeated.
 */
import http from "node:http";
import { Readable } from "node:stream";

const order = JSON.parse(process.argv[2]);
const BOUNDARY = "boundary-of-the-form";
const PIECE = Buffer.alloc(64 * 1024, "a");

function* body() {
  const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n`;
  const tail = `\r\n--${BOUNDARY}\r\nContent-Disposition: form-data; name="language"\r\n\r\nhi\r\n--${BOUNDARY}--\r\n`;
  if (order.isForm) yield Buffer.from(head);
  for (let left = order.bytes; left > 0; left -= PIECE.length) yield PIECE.subarray(0, left);
  if (order.isForm) yield Buffer.from(tail);
}

function fields() {
  const type = order.isForm ? { "content-type": `multipart/form-data; boundary=${BOUNDARY}` } : {};
  return { ...order.headers, ...type };
}

/** What every client reports: status, code, and the header fields that clients act on. */
function seen(status, text, field) {
  let code = "no code";
  try {
    code = JSON.parse(text).error.code;
  } catch {}
  const retry = field("retry-after") ? " retry-after" : "";
  return `${status} ${code}${retry}${field("x-request-id") ? "" : " without x-request-id"}`;
}

async function byFetch() {
  const whole = Buffer.concat([...body()]);
  const pieces = () => Readable.toWeb(Readable.from(body()));
  const sent = order.isChunked ? { body: pieces(), duplex: "half" } : { body: whole };
  const answer = await fetch(order.url, { method: order.method, headers: fields(), ...sent });
  return seen(answer.status, await answer.text(), (name) => answer.headers.get(name));
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 2 });
function byHttp() {
  return new Promise((resolve, reject) => {
    const pieces = [...body()];
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
    const request = http.request(order.url, {
      agent,
      method: order.method,
      headers: order.isChunked ? fields() : { ...fields(), "content-length": length },
    });
    request.on("error", reject);
    request.on("response", async (answer) => {
      try {
        const text = (await answer.toArray()).join("");
        resolve(seen(answer.statusCode, text, (name) => answer.headers[name]));
      } catch (error) {
        reject(error);
      }
    });
    Readable.from(pieces).pipe(request);
  });
}

async function bySdk() {
  const { default: OpenAI, toFile } = await import("openai");
  const apiKey = order.headers.authorization.slice("Bearer ".length);
  const baseURL = order.url.replace(/\/audio\/transcriptions$/, "");
  const sdk = new OpenAI({ apiKey, baseURL, maxRetries: 0 });
  const file = await toFile(Buffer.alloc(order.bytes, "a"), "a.wav");
  try {
    await sdk.audio.transcriptions.create({ file, language: "hi" });
    return "200";
  } catch (error) {
    if (error.status === undefined) throw error;
    return seen(error.status, JSON.stringify({ error: error.error }), (name) => error.headers.get(name));
  }
}

const clients = { fetch: byFetch, http: byHttp, sdk: bySdk };
const counts = {};
for (let n = 0, repeats = 0; n < order.tries; n += 1) {
  let outcome;
  try {
    outcome = await clients[order.client]();
  } catch (error) {
    const { cause } = error;
    outcome = `lost: ${error.code ?? cause?.code ?? cause?.cause?.code ?? error.message}`;
  }
  if (order.again?.some((status) => outcome.startsWith(status)) && repeats < 100) {
    repeats += 1;
    n -= 1;
    continue;
  }
  counts[outcome] = (counts[outcome] ?? 0) + 1;
}
process.stdout.write(JSON.stringify(counts));
process.exit(0);
