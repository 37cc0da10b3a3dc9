import type { HttpHandler } from "./server.ts";

/** A handler that knows which of its requests are not answered yet. */
export type CountedHandler = {
  handle: HttpHandler;
  /** Resolves when every request that has come in so far is answered. */
  answered(): Promise<void>;
};

export function countRequests(handle: HttpHandler): CountedHandler {
  const open = new Set<Promise<Response>>();
  return {
    handle(request, server) {
      const answer = handle(request, server);
      open.add(answer);
      const forget = () => void open.delete(answer);
      answer.then(forget, forget);
      return answer;
    },
    async answered() {
      await Promise.allSettled(open);
    },
  };
}
