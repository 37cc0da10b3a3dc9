import { createRepeats } from "./repeats.ts";

/** Fields and text of a line of the log. */
export type LogCall = [fields: unknown, message?: string, ...rest: unknown[]];

/** How often a message about a state that lasts is repeated. */
const REPEAT_EVERY_MS = 5 * 60_000;
/** Messages of the program are few. */
const MAX_MESSAGES = 1_000;

/**
 * Makes a filter of the log for errors that repeat as long as a state of the machine lasts, such as a full disk. The first
 * one of a message is logged. Then a line in five minutes has the number of those that were left out, and no stack.
 *
 * @param stateOf names the state that the fields of a line report; undefined: none, the line is logged
 * @returns a function that returns the line to log, or undefined where it is left out
 */
export function createRepeatedErrors(
  stateOf: (fields: Record<string, unknown>) => string | undefined,
  now: () => number = () => performance.now(),
): (call: LogCall) => LogCall | undefined {
  const repeats = createRepeats({ everyMs: REPEAT_EVERY_MS, maxKeys: MAX_MESSAGES, now });
  return (call) => {
    const [fields, message = "", ...rest] = call;
    const isObject = typeof fields === "object" && fields !== null;
    const state = isObject ? stateOf(fields as Record<string, unknown>) : undefined;
    if (state === undefined) return call;
    const repeated = repeats(`${state} ${message}`);
    if (repeated === undefined) return undefined;
    return repeated === 1 ? call : [{ state, repeated }, message, ...rest];
  };
}
