import { toAppError } from "../wire/errors.ts";
import { openAiShape } from "./errors.ts";

/** How often a comment keeps a silent connection open, for proxies that end idle ones. */
const KEEP_ALIVE_MS = 15_000;

export type TextSource = {
  /** Calls with the text so far. @returns ends the calls */
  watch: (onText: (text: string) => void) => () => void;
  /** Resolves with the final text. */
  outcome: Promise<string>;
};

/**
 * Sends text as it is recognized, as server-sent events: `transcript.text.delta` with each addition,
 * `transcript.text.done` with the whole text, then `[DONE]`. An error ends the stream with an `error` event.
 *
 * The text of `done` is the one that counts. The deltas give the same text unless the final text does not begin with an
 * earlier one.
 */
export function streamText({ watch, outcome }: TextSource): Response {
  const encoder = new TextEncoder();
  let stop = () => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      let isOpen = true;
      let sent = "";
      const write = (text: string) => {
        if (isOpen) controller.enqueue(encoder.encode(text));
      };
      const send = (event: { type: string } & Record<string, unknown>) =>
        write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      const advance = (text: string) => {
        if (text.length <= sent.length || !text.startsWith(sent)) return;
        send({ type: "transcript.text.delta", delta: text.slice(sent.length) });
        sent = text;
      };
      const endWatch = watch(advance);
      // The head of the answer leaves with the first bytes.
      write(": accepted\n\n");
      const keepAlive = setInterval(() => write(": the work continues\n\n"), KEEP_ALIVE_MS);
      stop = () => {
        isOpen = false;
        clearInterval(keepAlive);
        endWatch();
      };
      const finish = (text: string) => {
        advance(text);
        send({ type: "transcript.text.done", text });
        write("data: [DONE]\n\n");
      };
      const fail = (thrown: unknown) => {
        const { body } = openAiShape(toAppError(thrown));
        write(`event: error\ndata: ${JSON.stringify(body)}\n\n`);
      };
      void outcome.then(finish, fail).finally(() => {
        if (isOpen) controller.close();
        stop();
      });
    },
    cancel: () => stop(),
  });
  return new Response(body, {
    headers: { "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no" },
  });
}
