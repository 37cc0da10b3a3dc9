// Sends a recording by tus, waits for the webhook, and saves SubRip subtitles. Node 18 or newer, no packages.
//
//   API_URL=https://speech.example API_KEY=shr_… HOOK_URL=https://me.example/hook HOOK_PORT=8443 \
//     node transcribe.mjs FILE LANGUAGE OUTPUT.srt
//
// HOOK_URL is the address under which the server reaches HOOK_PORT of this machine.
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { open, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

const [path, language, output] = process.argv.slice(2);
const { API_URL, API_KEY, HOOK_URL, HOOK_PORT } = process.env;
const ATTEMPTS = 8;
// Before anything is sent: what is done is charged.
if (!output || !API_URL || !API_KEY || !HOOK_URL || !HOOK_PORT) {
  console.error("usage: API_URL=… API_KEY=… HOOK_URL=… HOOK_PORT=… node transcribe.mjs FILE LANGUAGE OUTPUT.srt");
  process.exit(2);
}

async function api(method, address, body, headers = {}) {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(API_URL + address, {
      method,
      headers: { authorization: `Bearer ${API_KEY}`, "content-type": "application/json", ...headers },
      body: body && JSON.stringify(body),
    });
    if (response.ok) return response;
    // After 429, 500 and 503 the same request may be sent again (docs/interface.md section 7.2).
    if (![429, 500, 503].includes(response.status) || attempt === ATTEMPTS) {
      throw new Error(`${method} ${address}: ${response.status} ${await response.text()}`);
    }
    await pause(1000 * Number(response.headers.get("retry-after") ?? 2 ** attempt));
  }
}

/** Checks a delivery as Standard Webhooks 1.0 says. While a secret is replaced there are two signatures. */
function isGenuine(secret, headers, body) {
  const id = headers["webhook-id"];
  const timestamp = headers["webhook-timestamp"];
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false;
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest();
  return String(headers["webhook-signature"])
    .split(" ")
    .map((signature) => Buffer.from(signature.slice("v1,".length), "base64"))
    .some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
}

/** Sends a file by tus 1.0. After a broken connection it continues where the server's bytes end. */
async function send(file, size, { endpoint, chunk_size, headers, metadata }) {
  const tus = { ...headers, "tus-resumable": "1.0.0" };
  const pairs = Object.entries(metadata).map(([name, value]) => `${name} ${Buffer.from(value).toString("base64")}`);
  const created = await fetch(endpoint, {
    method: "POST",
    headers: { ...tus, "upload-length": String(size), "upload-metadata": pairs.join(",") },
  });
  if (!created.ok) throw new Error(`tus: ${created.status} ${await created.text()}`);
  const address = new URL(created.headers.get("location"), endpoint);
  const chunk = Buffer.alloc(chunk_size);
  let failures = 0;
  for (let offset = 0; offset < size; ) {
    const { bytesRead } = await file.read(chunk, 0, chunk_size, offset);
    try {
      const sent = await fetch(address, {
        method: "PATCH",
        headers: { ...tus, "upload-offset": String(offset), "content-type": "application/offset+octet-stream" },
        body: chunk.subarray(0, bytesRead),
      });
      if (sent.status !== 204) throw new Error(`tus: ${sent.status} ${await sent.text()}`);
      offset = Number(sent.headers.get("upload-offset"));
      failures = 0;
    } catch (error) {
      if (++failures === ATTEMPTS) throw error;
      await pause(1000 * 2 ** failures);
      const head = await fetch(address, { method: "HEAD", headers: tus });
      if (head.ok) offset = Number(head.headers.get("upload-offset"));
    }
  }
}

const events = new Map();
let secret = "";
const receiver = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  if (!isGenuine(secret, request.headers, body)) return response.writeHead(401).end();
  const { data } = JSON.parse(body);
  // The server answers nothing else: what is slow comes after the answer.
  response.writeHead(204).end();
  events.set(data.id, data);
}).listen(Number(HOOK_PORT));
const file = await open(path);
const { size } = await file.stat();
const hook = await (await api("POST", "/v1/webhook_endpoints", { url: HOOK_URL })).json();
secret = hook.secret;
try {
  const upload = await (await api("POST", "/v1/uploads", { bytes: size })).json();
  await send(file, size, upload.resumable_upload);
  let verified = await (await api("POST", `/v1/uploads/${upload.id}/complete`)).json();
  while (verified.state === "verifying") {
    await pause(2000);
    verified = await (await api("GET", `/v1/uploads/${upload.id}`)).json();
  }
  if (verified.state !== "complete") throw new Error(JSON.stringify(verified.error));
  const order = { audio: { upload_id: upload.id }, language, webhook_endpoint_id: hook.id };
  const key = { "idempotency-key": randomUUID() };
  const { id } = await (await api("POST", "/v1/transcriptions", order, key)).json();
  // An event may be late. After a minute without one the program asks.
  for (let waited = 0; !events.has(id); waited++) {
    await pause(200);
    if (waited % 300 !== 299) continue;
    const latest = await (await api("GET", `/v1/transcriptions/${id}`)).json();
    if (latest.finished_at) events.set(id, latest);
  }
  const { state, error } = events.get(id);
  if (state !== "completed" && state !== "partial") throw new Error(`${state} ${error?.message ?? ""}`);
  const subtitles = await api("GET", `/v1/transcriptions/${id}/result?format=srt`);
  await writeFile(output, await subtitles.text());
  console.log(`${id} is ${state}`);
} finally {
  await api("DELETE", `/v1/webhook_endpoints/${hook.id}`);
  await file.close();
  receiver.close();
}
