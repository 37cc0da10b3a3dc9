import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { coloursOf } from "../lib/colours.ts";
import { interfaceLanguage, isDark } from "../lib/preferences.ts";
import { words } from "../words/words.ts";

/** A line or bars over time; null: nothing was measured then. */
export type ChartSeries = {
  label: string;
  values: readonly (number | null)[];
  colour: "accent" | "bad" | "warn";
};

type ChartProps = {
  title: string;
  at: readonly number[];
  series: ChartSeries[];
  isBars?: boolean;
  digits?: number;
};

const HEIGHT_PX = 150;
const DAY_SECONDS = 86_400;

/** A chart with its title. Its numbers are read out as the latest value of each series. */
export function Chart({ title, at, series, isBars = false, digits = 0 }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const last = series.map(
    ({ label, values }) => `${label}: ${values.findLast((value) => value !== null) ?? "–"}`,
  );
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let chart: uPlot | undefined;
    const draw = () => {
      chart?.destroy();
      chart = new uPlot(
        optionsOf(element.clientWidth, series, { isBars, digits }),
        [[...at], ...series.map(({ values }) => [...values])],
        element,
      );
    };
    const stop = effect(() => {
      void isDark.value;
      void interfaceLanguage.value;
      draw();
    });
    const observer = new ResizeObserver(() =>
      chart?.setSize({ width: element.clientWidth, height: HEIGHT_PX }),
    );
    observer.observe(element);
    return () => {
      stop();
      observer.disconnect();
      chart?.destroy();
    };
  }, [at, series]);
  const isEmpty = series.every(({ values }) => values.every((value) => value === null));
  return (
    <figure class={isEmpty ? "chart chart-empty" : "chart"}>
      <figcaption>{title}</figcaption>
      <div ref={place} role="img" aria-label={`${title}. ${last.join(", ")}`} />
      {isEmpty && <p class="muted small">{words.value.admin.noData}</p>}
    </figure>
  );
}

function optionsOf(
  width: number,
  series: readonly ChartSeries[],
  { isBars, digits }: { isBars: boolean; digits: number },
): uPlot.Options {
  const colours = coloursOf(["muted", "line", "accent", "bad", "warn"]);
  const axis = {
    stroke: colours.muted,
    grid: { stroke: colours.line, width: 1 },
    ticks: { stroke: colours.line, width: 1 },
    font: "12px 'Shruti Sans', sans-serif",
  };
  const bars = uPlot.paths.bars?.({ size: [0.7, 40] });
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    // Half of the last time of the axis is beside its mark.
    padding: [8, 24, 0, 0],
    scales: {
      // Bars are as wide as their day: the first and the last have room for all of it.
      ...(isBars
        ? { x: { range: (_, low, high) => [(low ?? 0) - DAY_SECONDS / 2, (high ?? 0) + DAY_SECONDS / 2] } }
        : {}),
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 1) * 1.1)] },
    },
    axes: [
      { ...axis, values: timeLabels },
      {
        ...axis,
        size: 48,
        values: (_, marks) =>
          marks.map((mark) => mark.toLocaleString("en-IN", { maximumFractionDigits: digits + 1 })),
      },
    ],
    series: [
      {},
      ...series.map(({ label, colour: name }) => ({
        label,
        stroke: colours[name],
        width: 1.5,
        points: { show: false },
        ...(isBars && bars ? { paths: bars, fill: colours[name] } : {}),
      })),
    ],
  };
}

/** Hours on short axes, days on long ones. */
function timeLabels(_chart: uPlot, marks: number[]): string[] {
  const isLong = (marks.at(-1) ?? 0) - (marks[0] ?? 0) > 2 * DAY_SECONDS;
  const format = new Intl.DateTimeFormat(
    interfaceLanguage.value === "hi" ? "hi-IN-u-nu-latn" : "en-IN",
    isLong ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit", hour12: false },
  );
  return marks.map((mark) => format.format(new Date(mark * 1000)));
}
