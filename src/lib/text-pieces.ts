import { nextTurn, slicesOf } from "./in-slices.ts";

/** Items of a list that one piece of a long text has at most. */
export const ITEMS_OF_PIECE = 200;

/**
 * Writes an object as `JSON.stringify` does, in pieces: a long list among its values is written part by part, so that
 * other work can be done in between.
 */
export function* jsonPieces(value: Readonly<Record<string, unknown>>): Generator<string> {
  let mark = "{";
  for (const [key, each] of Object.entries(value)) {
    if (each === undefined) continue;
    const before = `${mark}${JSON.stringify(key)}:`;
    mark = ",";
    if (Array.isArray(each) && each.length > ITEMS_OF_PIECE) yield* listPieces(before, each);
    else yield before + JSON.stringify(each);
  }
  yield mark === "{" ? "{}" : "}";
}

function* listPieces(before: string, items: readonly unknown[]): Generator<string> {
  let mark = `${before}[`;
  for (const slice of slicesOf(items, ITEMS_OF_PIECE)) {
    yield mark + JSON.stringify(slice).slice(1, -1);
    mark = ",";
  }
  yield "]";
}

/** Characters after which other work is let in. */
const CHARACTERS_OF_TURN = 16_384;

/** Joins pieces of a text, as UTF-8. Other work of the event loop runs in between. */
export async function bytesOfPieces(pieces: Iterable<string>): Promise<Uint8Array<ArrayBuffer>> {
  const sink = new Bun.ArrayBufferSink();
  sink.start({ asUint8Array: true });
  let characters = 0;
  for (const piece of pieces) {
    if (characters >= CHARACTERS_OF_TURN) {
      characters = 0;
      await nextTurn();
    }
    sink.write(piece);
    characters += piece.length;
  }
  return sink.end() as Uint8Array<ArrayBuffer>;
}
