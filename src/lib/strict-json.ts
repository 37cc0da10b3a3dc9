/** What `JSON.parse` accepts and an interface must not. */
export type JsonInspection = {
  /** Dotted path of the first name that an object has twice. */
  duplicate: string | undefined;
  /** How deep arrays and objects nest. */
  depth: number;
  /** The first number that is not written as JavaScript writes its value. Other readers may read another value. */
  inexact: string | undefined;
};

type Frame = { path: string; names: Set<string> | undefined; index: number; name: string };

/**
 * Looks through a text that `JSON.parse` has accepted (RFC 8259 section 4 leaves duplicate names open;
 * docs/decisions/conventions.md refuses them).
 *
 * It takes time in proportion to the text, and no stack.
 */
export function inspectJson(text: string): JsonInspection {
  const frames: Frame[] = [];
  let depth = 0;
  let duplicate: string | undefined;
  let inexact: string | undefined;
  let isName = false;
  for (let at = 0; at < text.length; at++) {
    const frame = frames.at(-1);
    switch (text[at]) {
      case "{":
      case "[": {
        const isObject = text[at] === "{";
        frames.push({ path: pathInside(frame), names: isObject ? new Set() : undefined, index: 0, name: "" });
        depth = Math.max(depth, frames.length);
        isName = isObject;
        break;
      }
      case "}":
      case "]":
        frames.pop();
        isName = false;
        break;
      case ",":
        isName = frame?.names !== undefined;
        if (frame) frame.index += 1;
        break;
      case '"': {
        const end = endOfString(text, at);
        if (isName && frame?.names) {
          frame.name = JSON.parse(text.slice(at, end + 1)) as string;
          if (frame.names.has(frame.name)) duplicate ??= pathInside(frame);
          frame.names.add(frame.name);
          isName = false;
        }
        at = end;
        break;
      }
      default: {
        if (!FIRST_OF_NUMBER.has(text[at] ?? "")) break;
        const end = endOfNumber(text, at);
        const number = text.slice(at, end);
        if (JSON.stringify(Number(number)) !== number) inexact ??= number;
        at = end - 1;
      }
    }
  }
  return { duplicate, depth, inexact };
}

/** A text that is not strict JSON. The message begins after the name of what the text is. */
export class StrictJsonError extends Error {}

/** Deeper than anything that this program writes. */
const MAX_DEPTH = 32;

/**
 * Reads JSON of which a hash or a signature is right. RFC 8785 demands what RFC 7493 (I-JSON) says, so that all readers
 * read the same: no name twice in an object, no number that another reader would round, and only whole characters. The
 * text may have white space and escapes as it likes; the value must not depend on the reader.
 *
 * @throws StrictJsonError
 */
export function readStrictJson(text: string): unknown {
  if (nestsDeeperThan(MAX_DEPTH, text)) throw new StrictJsonError(`it nests deeper than ${MAX_DEPTH} levels`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new StrictJsonError("it is not JSON");
  }
  const { duplicate, inexact } = inspectJson(text);
  if (duplicate !== undefined) throw new StrictJsonError(`it has ${JSON.stringify(duplicate)} twice`);
  if (inexact !== undefined) {
    throw new StrictJsonError(
      `it has the number ${inexact.slice(0, 40)}, which not every program reads alike`,
    );
  }
  if (!isWellFormed(value)) throw new StrictJsonError("it has a text with half a character");
  return value;
}

/** Reports whether no text and no name has a lone surrogate. */
function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([name, each]) => name.isWellFormed() && isWellFormed(each));
}

/** The first character of a number is a digit or a minus sign; the others may also be of `.`, `e`, `E` and `+`. */
const FIRST_OF_NUMBER = new Set("-0123456789");
const OF_NUMBER = new Set("-0123456789+.eE");

function endOfNumber(text: string, start: number): number {
  let at = start;
  while (OF_NUMBER.has(text[at] ?? "")) at++;
  return at;
}

/**
 * Reports whether arrays and objects of a text nest deeper than some levels, before `JSON.parse` makes all of them: with
 * very many levels it takes a hundred times as long as with very many values. The text need not be JSON.
 */
export function nestsDeeperThan(maxDepth: number, text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at);
    else if (character === "{" || character === "[") depth += 1;
    else if (character === "}" || character === "]") depth -= 1;
    if (depth > maxDepth) return true;
  }
  return false;
}

/** The index of the quote that ends the string whose opening quote is at `start`. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at;
}

function pathInside(frame: Frame | undefined): string {
  if (!frame) return "";
  const step = frame.names ? frame.name : String(frame.index);
  return frame.path === "" ? step : `${frame.path}.${step}`;
}
