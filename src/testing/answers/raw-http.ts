import { connect, type Socket } from "node:net";

/** A response as it arrived. Header names are in lower case. */
export type RawAnswer = { status: number; headers: Map<string, string>; body: string };

/** The outcome of one connection. */
export type Exchange = {
  answers: RawAnswer[];
  /** Bytes that are not a response, or the beginning of one that broke off. */
  rest: string;
  /** `idle`: every expected response had arrived, or nothing more arrived for the given time. */
  ended: "closed" | "idle" | "reset" | "too late";
};

export type ExchangeOptions = {
  port: number;
  /** Sent in this order with a short pause between them, so that they arrive separately. */
  pieces: readonly Uint8Array[];
  /** Methods of the requests. A response to `HEAD` has no body, whatever its head says. */
  methods: readonly string[];
  /**
   * What follows the last piece: wait for the responses; wait until nothing arrives for a while; end the sending side; or
   * close the whole connection.
   */
  afterwards?: "wait" | "linger" | "end" | "destroy";
  timeoutMs: number;
};

const PAUSE_MS = 2;
/** Time that a client waits for a response when it has sent something malformed. */
const SILENCE_MS = 1_000;
/** Time after which a client that has sent half a request leaves. */
const STAY_MS = 25;

/**
 * Sends bytes over a new connection and reads the responses. No client library sends such bytes, and none adds or
 * corrects anything here.
 */
export async function exchange({
  port,
  pieces,
  methods,
  afterwards = "wait",
  timeoutMs,
}: ExchangeOptions): Promise<Exchange> {
  const socket = connect({ host: "127.0.0.1", port, noDelay: true });
  const received: Buffer[] = [];
  const over = Promise.withResolvers<Exchange["ended"]>();
  const isComplete = () => {
    const { answers } = parseAnswers(Buffer.concat(received), methods, false);
    return answers.length >= methods.length;
  };
  const isLeaving = afterwards === "end" || afterwards === "destroy";
  const restarted = (timer?: ReturnType<typeof setTimeout>) => {
    clearTimeout(timer);
    return setTimeout(() => over.resolve("idle"), SILENCE_MS);
  };
  let silence: ReturnType<typeof setTimeout> | undefined;
  socket.on("data", (bytes: Buffer) => {
    received.push(bytes);
    if (!isLeaving && isComplete()) over.resolve("idle");
    if (afterwards === "linger") silence = restarted(silence);
  });
  socket.on("error", () => over.resolve("reset"));
  socket.on("close", () => over.resolve("closed"));
  const timer = setTimeout(() => over.resolve("too late"), timeoutMs);
  await sendPieces(socket, pieces);
  if (afterwards === "end") socket.end();
  if (afterwards === "linger") silence = restarted(silence);
  if (afterwards === "destroy") setTimeout(() => over.resolve("idle"), STAY_MS);
  const ended = await over.promise;
  clearTimeout(timer);
  clearTimeout(silence);
  socket.destroy();
  return { ...parseAnswers(Buffer.concat(received), methods, ended === "closed"), ended };
}

async function sendPieces(socket: Socket, pieces: readonly Uint8Array[]): Promise<void> {
  for (const [index, piece] of pieces.entries()) {
    if (index > 0) await Bun.sleep(PAUSE_MS);
    if (socket.destroyed || !socket.writable) return;
    socket.write(piece);
  }
}

/** Splits the received bytes into responses (RFC 9112 section 6.3). */
function parseAnswers(
  bytes: Buffer,
  methods: readonly string[],
  isClosed: boolean,
): { answers: RawAnswer[]; rest: string } {
  const answers: RawAnswer[] = [];
  let at = 0;
  while (at < bytes.length) {
    const headEnd = bytes.indexOf("\r\n\r\n", at);
    if (headEnd < 0) break;
    const head = parseHead(bytes.toString("latin1", at, headEnd));
    if (!head) break;
    if (head.status >= 100 && head.status < 200) {
      at = headEnd + 4;
      continue;
    }
    const body = bodyOf(bytes.subarray(headEnd + 4), head, methods[answers.length] ?? "GET", isClosed);
    if (!body) break;
    answers.push({ ...head, body: body.text });
    at = headEnd + 4 + body.length;
  }
  return { answers, rest: bytes.toString("latin1", at) };
}

type Head = { status: number; headers: Map<string, string> };

function parseHead(text: string): Head | undefined {
  const [first = "", ...lines] = text.split("\r\n");
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1];
  if (status === undefined) return undefined;
  const headers = new Map<string, string>();
  for (const line of lines) {
    const at = line.indexOf(":");
    if (at > 0) headers.set(line.slice(0, at).toLowerCase(), line.slice(at + 1).trim());
  }
  return { status: Number(status), headers };
}

function bodyOf(
  bytes: Buffer,
  { status, headers }: Head,
  method: string,
  isClosed: boolean,
): { text: string; length: number } | undefined {
  if (method === "HEAD" || status === 204 || status === 304) return { text: "", length: 0 };
  if (headers.get("transfer-encoding")?.toLowerCase() === "chunked") return chunkedBody(bytes);
  const declared = headers.get("content-length");
  const length = declared === undefined ? (isClosed ? bytes.length : undefined) : Number(declared);
  if (length === undefined || length > bytes.length) return undefined;
  return { text: bytes.toString("utf8", 0, length), length };
}

function chunkedBody(bytes: Buffer): { text: string; length: number } | undefined {
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(bytes.toString("latin1", at, lineEnd), 16);
    const start = lineEnd + 2;
    if (!Number.isFinite(size) || bytes.length < start + size + 2) return undefined;
    if (size === 0) return { text: Buffer.concat(parts).toString("utf8"), length: start + 2 };
    parts.push(bytes.subarray(start, start + size));
    at = start + size + 2;
  }
}
