/** Strict parsers of subtitle files. */
export type ParsedCue = {
  startMs: number;
  endMs: number;
  lines: string[];
  speaker?: string;
  /** The timestamps within the text, milliseconds, and how many characters of the text stand before each. */
  timestamps?: { ms: number; at: number }[];
};

function milliseconds(hours = "", minutes = "", seconds = "", thousandths = ""): number {
  return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000 + Number(thousandths);
}

/** Checks that a player can show the cues: each has a duration, and none starts before the previous one. */
function requireOrder(cues: readonly ParsedCue[]): void {
  let previousMs = 0;
  for (const { startMs, endMs, lines } of cues) {
    if (endMs <= startMs) throw new Error(`a cue at ${startMs} ms ends at ${endMs} ms`);
    if (startMs < previousMs) throw new Error(`a cue at ${startMs} ms follows one at ${previousMs} ms`);
    if (lines.length === 0 || lines.some((line) => line.trim() === ""))
      throw new Error("an empty line in a cue");
    previousMs = startMs;
  }
}

const SRT_TIMES = /^(\d{2,}):([0-5]\d):([0-5]\d),(\d{3}) --> (\d{2,}):([0-5]\d):([0-5]\d),(\d{3})$/;

/** What players take for times, markup, characters or control codes, although SubRip has no rules for them. */
const SRT_SYNTAX = /-->|<[^\u2060]|<$|[{}]|&#?[a-z\d]+;|\\[^\u2060]|\\$/i;

/**
 * Parses SubRip: blocks of number, times and lines, separated by one empty line. Lines are without the word joiners that
 * keep text from being syntax.
 */
export function parseSrt(text: string): ParsedCue[] {
  if (text === "") return [];
  if (!text.endsWith("\n") || text.endsWith("\n\n") || text.includes("\r"))
    throw new Error("wrong line ends");
  const cues = text
    .slice(0, -1)
    .split("\n\n")
    .map((block, index): ParsedCue => {
      const [number, times = "", ...lines] = block.split("\n");
      if (number !== String(index + 1)) throw new Error(`cue ${index + 1} has the number ${number}`);
      const match = SRT_TIMES.exec(times);
      if (!match) throw new Error(`no times: ${times}`);
      const syntax = lines.find((line) => SRT_SYNTAX.test(line));
      if (syntax !== undefined) throw new Error(`a player can take text for syntax: ${syntax}`);
      return {
        startMs: milliseconds(...match.slice(1, 5)),
        endMs: milliseconds(...match.slice(5, 9)),
        lines: lines.map((line) => line.replaceAll("\u2060", "")),
      };
    });
  requireOrder(cues);
  return cues;
}

const VTT_TIMES =
  /^(?:(\d{2,}):)?([0-5]\d):([0-5]\d)\.(\d{3}) --> (?:(\d{2,}):)?([0-5]\d):([0-5]\d)\.(\d{3})$/;
const ESCAPES: Readonly<Record<string, string>> = { "&amp;": "&", "&lt;": "<", "&gt;": ">" };

const unescaped = (text: string) => text.replace(/&(?:amp|lt|gt);/g, (entity) => ESCAPES[entity] ?? entity);

const TIMESTAMP = /<(?:(\d{2,}):)?([0-5]\d):([0-5]\d)\.(\d{3})>/;

/** Takes the timestamps out of a text. Each must be later than the one before and the start, and earlier than the end. */
function withoutTimestamps(text: string, { startMs, endMs }: Pick<ParsedCue, "startMs" | "endMs">) {
  const timestamps: NonNullable<ParsedCue["timestamps"]> = [];
  let left = text;
  for (let match = TIMESTAMP.exec(left); match; match = TIMESTAMP.exec(left)) {
    const ms = milliseconds(...match.slice(1, 5));
    if (ms <= (timestamps.at(-1)?.ms ?? startMs) || ms >= endMs) throw new Error(`a timestamp at ${ms} ms`);
    timestamps.push({ ms, at: unescaped(left.slice(0, match.index)).length });
    left = left.slice(0, match.index) + left.slice(match.index + match[0].length);
  }
  return { spoken: left, timestamps };
}

/**
 * Parses the part of WebVTT (sections 4.1 and 4.2.2) that the program writes: cues without settings, at most one voice span,
 * timestamps.
 */
export function parseVtt(text: string): ParsedCue[] {
  const [header, ...blocks] = text.replace(/\n$/, "").split("\n\n");
  if (header !== "WEBVTT") throw new Error(`no header: ${header}`);
  const cues = blocks.map((block): ParsedCue => {
    const [head = "", ...payload] = block.split("\n");
    const match = VTT_TIMES.exec(head);
    if (!match) throw new Error(`no times: ${head}`);
    const voice = /^<v ((?:[^<>&\n]|&(?:amp|lt|gt);)+)>([\s\S]*)<\/v>$/.exec(payload.join("\n"));
    const times = { startMs: milliseconds(...match.slice(1, 5)), endMs: milliseconds(...match.slice(5, 9)) };
    const { spoken, timestamps } = withoutTimestamps(voice?.[2] ?? payload.join("\n"), times);
    if (/[<>]/.test(spoken) || /&(?!amp;|lt;|gt;)/.test(spoken)) throw new Error(`not escaped: ${spoken}`);
    const lines = unescaped(spoken).split("\n");
    return {
      ...times,
      lines,
      ...(timestamps.length > 0 ? { timestamps } : {}),
      ...(voice?.[1] === undefined ? {} : { speaker: unescaped(voice[1]) }),
    };
  });
  requireOrder(cues);
  return cues;
}
