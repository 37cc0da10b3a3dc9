import { effect, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import WaveSurfer from "wavesurfer.js";
import { coloursOf } from "../lib/colours.ts";
import { isDark } from "../lib/preferences.ts";
import { clock } from "../words/format.ts";
import { words } from "../words/words.ts";
import { drawLane, laneHeight } from "./lane.ts";
import type { Player } from "./player.ts";
import { rowAt } from "./rows.ts";
import type { TranscriptModel } from "./shown-transcript.ts";
import type { Waveform } from "./waveform-data.ts";

const HEIGHT_PX = 64;
const LANE_HEIGHT_PX = 44;
/** Pixels per second at the steps of the zoom; 0: all of it. */
export const ZOOMS = [0, 4, 15, 50, 150];

/** Page keys move by a part of the recording. */
const PAGES = 10;
const LEAST_PAGE_SECONDS = 10;

type Props = { model: TranscriptModel; waveform: Waveform; player: Player };

/** The shape of the sound, and under it what the appliance knows of it. */
export function WaveformView({ model, waveform, player }: Props) {
  const t = words.value.transcript;
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const surfer = useRef<WaveSurfer | undefined>(undefined);
  const range = useSignal({ from: 0, to: waveform.seconds });
  useEffect(() => {
    if (!place.current) return;
    const made = drawInto(place.current, waveform, player);
    surfer.current = made;
    made.on("scroll", (from, to) => {
      range.value = { from, to: Math.min(waveform.seconds, to) };
    });
    made.on("interaction", (seconds) => {
      model.focused.value = Math.max(0, rowAt(model.rows.value, seconds));
    });
    const recolour = effect(() => {
      void isDark.value;
      made.setOptions(colours());
    });
    return () => {
      recolour();
      made.destroy();
    };
  }, [waveform, player]);
  useLane(canvas, model, waveform, range);
  useEffect(() => {
    if (surfer.current?.getDecodedData()) surfer.current.zoom(ZOOMS[model.zoom.value] ?? 0);
    if (model.zoom.value === 0) range.value = { from: 0, to: waveform.seconds };
  }, [model.zoom.value]);
  const now = player.time.value;
  return (
    <section class="waveform" aria-label={t.waveform}>
      <div class="waveform-lanes">
        <div
          ref={place}
          class="waveform-sound"
          role="slider"
          tabIndex={0}
          aria-label={t.waveform}
          aria-valuemin={0}
          aria-valuemax={Math.round(waveform.seconds)}
          aria-valuenow={Math.round(now)}
          aria-valuetext={t.position(clock(now), clock(waveform.seconds))}
          onKeyDown={(event) => {
            const to = placeOf(event.key, now, waveform.seconds);
            if (to === undefined) return;
            event.preventDefault();
            player.seek(to);
          }}
        />
        <canvas
          ref={canvas}
          class="lane"
          role="img"
          aria-label={`${t.lane}: ${t.places(model.places.value.length)}`}
        />
      </div>
    </section>
  );
}

/** Where a key of a slider leads, in seconds; arrows are keys of the whole transcript. */
function placeOf(key: string, now: number, seconds: number): number | undefined {
  if (key === "Home") return 0;
  if (key === "End") return seconds;
  const page = Math.max(LEAST_PAGE_SECONDS, seconds / PAGES);
  if (key === "PageUp") return now + page;
  return key === "PageDown" ? now - page : undefined;
}

function colours() {
  const { wave, accent, text } = coloursOf(["wave", "accent", "text"]);
  return { waveColor: wave, progressColor: accent, cursorColor: text };
}

/**
 * Draws the sound. wavesurfer.js writes a style element into its shadow tree, which the page's policy forbids. The tree is
 * made apart from the page, where nothing is applied yet, and gets the same rules as a constructed style sheet.
 */
function drawInto(place: HTMLElement, { peaks, seconds }: Waveform, player: Player): WaveSurfer {
  const apart = document.createElement("div");
  const isSplit = peaks.length > 1;
  const surfer = WaveSurfer.create({
    container: apart,
    media: player.media,
    peaks: [...peaks],
    duration: seconds,
    height: isSplit ? LANE_HEIGHT_PX : HEIGHT_PX,
    ...(isSplit ? { splitChannels: peaks.map(() => ({ height: LANE_HEIGHT_PX })) } : {}),
    ...colours(),
    cursorWidth: 1,
    barWidth: 2,
    barGap: 1,
    barRadius: 1,
    barMinHeight: 1,
    normalize: true,
    dragToSeek: true,
  });
  const tree = apart.firstElementChild?.shadowRoot;
  const own = tree?.querySelector("style");
  if (tree && own) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(own.textContent ?? "");
    tree.adoptedStyleSheets = [sheet];
    own.remove();
  }
  place.append(apart);
  return surfer;
}

type Range = { value: { from: number; to: number } };

/** Draws the lane whenever something that it shows has changed. */
function useLane(
  canvas: { current: HTMLCanvasElement | null },
  model: TranscriptModel,
  waveform: Waveform,
  range: Range,
): void {
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const draw = () => {
      const corrected = model.corrections.all.value;
      const view = {
        rows: model.rows.value,
        isCorrected: (index: number) => corrected.has(index),
        channels: waveform.peaks.length,
        hasSpeakers: model.speakers.value.length > 0,
        ...range.value,
      };
      element.style.height = `${laneHeight(view)}px`;
      drawLane(element, view);
    };
    const stop = effect(() => {
      void isDark.value;
      draw();
    });
    const observer = new ResizeObserver(draw);
    observer.observe(element);
    return () => {
      stop();
      observer.disconnect();
    };
  }, [model, waveform]);
}
