/** What `JSON.parse` accepts and an interface must not: the first duplicate name and the depth of a text. */
export type JsonInspection = { duplicate: string | undefined; depth: number };

type Frame = { path: string; names: Set<string> | undefined; index: number; name: string };

/**
 * Looks through a text that `JSON.parse` has accepted (RFC 8259 section 4 leaves duplicate names open;
 * docs/decisions.md section 1 refuses them).
 *
 * @returns the dotted path of the first name that an object repeats, and how deep arrays and objects nest
 */
export function inspectJson(text: string): JsonInspection {
  const frames: Frame[] = [];
  let depth = 0;
  let duplicate: string | undefined;
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
    }
  }
  return { duplicate, depth };
}

function pathInside(frame: Frame | undefined): string {
  if (!frame) return "";
  const step = frame.names ? frame.name : String(frame.index);
  return frame.path === "" ? step : `${frame.path}.${step}`;
}

/** The index of the quote that ends the string whose opening quote is at `start`. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at;
}
