import { coloursOf } from "../lib/colours.ts";
import { numberOf, SPEAKER_COLOURS, styleOf } from "../notes/speakers.ts";
import { doubtOf, type Row } from "./rows.ts";

/** What the lane shows, and where. */
export type LaneView = {
  rows: readonly Row[];
  /** Segments that a person has corrected are not in doubt any more. */
  isCorrected: (index: number) => boolean;
  /** Channels that were recognized on their own; 1 otherwise. */
  channels: number;
  hasSpeakers: boolean;
  from: number;
  to: number;
};

type Colours = Record<"words" | "unsure" | "gap" | "silent" | "line", string>;

const SPEAKER_PX = 8;
const WORDS_PX = 9;
const SPACE_PX = 2;

/** Height of the lane of one channel, pixels. */
const heightOf = (hasSpeakers: boolean) => WORDS_PX + SPACE_PX + (hasSpeakers ? SPEAKER_PX + SPACE_PX : 0);

export const laneHeight = ({ channels, hasSpeakers }: Pick<LaneView, "channels" | "hasSpeakers">): number =>
  channels * heightOf(hasSpeakers);

/** Draws what the appliance knows of the sound: words, doubts, gaps, sound without words, and who speaks. */
export function drawLane(canvas: HTMLCanvasElement, view: LaneView): void {
  const context = canvas.getContext("2d");
  const width = canvas.clientWidth;
  if (!context || width === 0) return;
  const scale = devicePixelRatio;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(laneHeight(view) * scale);
  context.scale(scale, scale);
  context.clearRect(0, 0, width, laneHeight(view));
  const colours = laneColours();
  const perSecond = width / Math.max(0.001, view.to - view.from);
  for (const row of view.rows) {
    if (row.start === undefined || row.end === undefined) continue;
    if (row.end < view.from || row.start > view.to) continue;
    const x = (row.start - view.from) * perSecond;
    const bar = { x, width: Math.max(1.5, (row.end - row.start) * perSecond) };
    drawRow(context, view, row, bar, colours);
  }
}

function laneColours(): Colours {
  const { accent, warn, bad, "line-strong": line } = coloursOf(["accent", "warn", "bad", "line-strong"]);
  return { words: accent, unsure: warn, gap: bad, silent: warn, line };
}

type Bar = { x: number; width: number };

function drawRow(context: CanvasRenderingContext2D, view: LaneView, row: Row, bar: Bar, colours: Colours) {
  const channel = channelOf(row);
  const top = (channel ?? 0) * heightOf(view.hasSpeakers);
  const wordsTop = top + (view.hasSpeakers ? SPEAKER_PX + SPACE_PX : 0);
  if (row.kind === "segment") {
    const { speaker, index } = row.segment;
    if (speaker !== undefined) drawSpeaker(context, numberOf(speaker), bar, top);
    const isUnsure = doubtOf(row.segment) === "strong" && !view.isCorrected(index);
    context.fillStyle = isUnsure ? stripes(context, colours.unsure) : colours.words;
    context.fillRect(bar.x, wordsTop, bar.width, WORDS_PX);
  } else if (row.kind === "gap") {
    context.fillStyle = colours.gap;
    context.fillRect(bar.x, wordsTop, bar.width, WORDS_PX);
  } else {
    context.strokeStyle = colours.silent;
    context.lineWidth = 1.5;
    context.strokeRect(bar.x + 0.75, wordsTop + 0.75, Math.max(1, bar.width - 1.5), WORDS_PX - 1.5);
  }
}

function channelOf(row: Row): number | undefined {
  if (row.kind === "segment") return row.segment.channel;
  return row.kind === "gap" ? row.gap.channel : row.stretch.channel;
}

function drawSpeaker(
  context: CanvasRenderingContext2D,
  number: number,
  { x, width }: Bar,
  top: number,
): void {
  const style = styleOf(number);
  context.fillStyle = SPEAKER_COLOURS[style.colour] ?? "";
  context.fillRect(x, top, width, SPEAKER_PX);
  if (style.pattern === 0) return;
  context.fillStyle = pattern(context, style.pattern, "rgb(255 255 255 / 75%)");
  context.fillRect(x, top, width, SPEAKER_PX);
}

const made = new Map<string, CanvasPattern | string>();

function stripes(context: CanvasRenderingContext2D, colour: string): CanvasPattern | string {
  return pattern(context, 1, colour);
}

/** Small pictures that repeat; the same shapes as `.pattern-…` in the styles. */
function pattern(context: CanvasRenderingContext2D, style: number, colour: string): CanvasPattern | string {
  const key = `${style} ${colour}`;
  const known = made.get(key);
  if (known !== undefined) return known;
  const tile = document.createElement("canvas");
  tile.width = 6;
  tile.height = 6;
  const pen = tile.getContext("2d");
  if (!pen) return colour;
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  pen.lineWidth = 2;
  drawTile(pen, style);
  const repeated = context.createPattern(tile, "repeat") ?? colour;
  made.set(key, repeated);
  return repeated;
}

function drawTile(pen: CanvasRenderingContext2D, style: number): void {
  const line = (x1: number, y1: number, x2: number, y2: number) => {
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
    pen.stroke();
  };
  if (style === 1 || style === 5) {
    for (const shift of [-6, 0, 6]) line(shift, 6, shift + 6, 0);
  }
  if (style === 2 || style === 5) {
    for (const shift of [-6, 0, 6]) line(shift, 0, shift + 6, 6);
  }
  if (style === 3) pen.fillRect(0, 0, 2, 6);
  if (style === 4) pen.fillRect(0, 2, 6, 2);
  if (style === 6) pen.fillRect(1, 1, 3, 3);
  if (style === 7) {
    pen.fillRect(0, 0, 2, 6);
    pen.fillRect(0, 2, 6, 2);
  }
}
