import { type SQL, sql } from "drizzle-orm";
import type { Moved } from "../domain/story.ts";

/** Most moves of a history. Where work is interrupted again and again, the last place is overwritten. */
const MOST_MOVES = 100;

/** Makes the new value of the column `history` after a move. */
export function withMove<State extends string>(nowMs: number, state: State): SQL<Moved<State>[]> {
  return sql`json_set(history, '$[' || min(json_array_length(history), ${MOST_MOVES - 1}) || ']',
    json_array(${nowMs}, ${state}))`;
}
