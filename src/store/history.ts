import { type Placeholder, type SQL, sql } from "drizzle-orm";
import type { Moved } from "../domain/story.ts";

/** Most moves of a history. Where work is interrupted again and again, the last place is overwritten. */
const MOST_MOVES = 100;

/**
 * Makes the new value of the column `history` after a move.
 *
 * @param nowMs the time, or its placeholder in a prepared statement; so is `state`
 */
export function withMove<State extends string>(
  nowMs: number | Placeholder,
  state: State | Placeholder,
): SQL<Moved<State>[]> {
  return sql`json_set(history, '$[' || min(json_array_length(history), ${MOST_MOVES - 1}) || ']',
    json_array(${nowMs}, ${state}))`;
}
