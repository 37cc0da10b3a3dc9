import type { Link } from "../link.ts";
import { PROTOCOL, readHelloReply, write } from "../messages.ts";

/**
 * Asks the control plane at the start whether it understands this worker. A control plane that is older, or two versions
 * newer, gives no answer. Such a worker must not take chunks: nothing would accept their results.
 */
export type Greeting = {
  isAnswered(): boolean;
  stop(): void;
};

const ANSWER_WITHIN_MS = 2_000;
const PAUSE_MS = 300;
/** Questions without an answer before that is reported. A control plane may just be starting. */
const PATIENCE = 20;

/**
 * @param subject where the control plane receives the worker's greetings
 * @param version of this program
 * @param onSilence called once when there is no answer for long
 */
export function openGreeting(
  link: Pick<Link, "request">,
  subject: string,
  version: string,
  onSilence: () => void,
): Greeting {
  let isAnswered = false;
  let isStopped = false;

  async function ask(): Promise<void> {
    for (let tries = 1; !isStopped; tries++) {
      try {
        const { data } = await link.request(subject, write({ v: PROTOCOL, version }), ANSWER_WITHIN_MS);
        readHelloReply(data);
        isAnswered = true;
        return;
      } catch {
        if (tries === PATIENCE) onSilence();
        await Bun.sleep(PAUSE_MS);
      }
    }
  }

  void ask();
  return {
    isAnswered: () => isAnswered,
    stop() {
      isStopped = true;
    },
  };
}
