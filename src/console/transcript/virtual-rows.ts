import { type Signal, useComputed, useSignal } from "@preact/signals";
import {
  defaultRangeExtractor,
  elementScroll,
  observeElementOffset,
  observeElementRect,
  type Range,
  Virtualizer,
} from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo } from "preact/hooks";
import { rowHeights } from "./row-heights.ts";
import { hasWho, type Row } from "./rows.ts";
import type { TranscriptModel } from "./shown-transcript.ts";

type List = Virtualizer<HTMLDivElement, HTMLLIElement>;

/** Rows beyond the edges of the window that are in the page. */
const OVERSCAN = 4;

const keyOf = (row: Row | undefined, index: number): string | number =>
  row?.kind === "segment" ? row.segment.index : `${row?.kind} ${row?.start} ${index}`;

/** Keeps account of which rows are near the window and where they are. The component is drawn again when others are. */
export function useVirtualRows(
  { rows, textOf, editing }: TranscriptModel,
  scroller: RefObject<HTMLDivElement | null>,
): List {
  const changed = useSignal(0);
  const shown = rows.value;
  const width = useSignal(0);
  // The virtualizer lays all rows out again when one of these functions is another one.
  const layout = useMemo(() => {
    const heightOf = rowHeights(width.value, shown, textOf);
    return {
      estimateSize: (index: number) => {
        const row = shown[index];
        return row ? heightOf(row, hasWho(row, shown[index - 1])) : 0;
      },
      getItemKey: (index: number) => keyOf(shown[index], index),
    };
  }, [shown, width.value]);
  const virtual = useMemo(
    (): List =>
      new Virtualizer({
        count: 0,
        estimateSize: () => 0,
        getScrollElement: () => scroller.current,
        scrollToFn: elementScroll,
        observeElementRect,
        observeElementOffset,
        overscan: OVERSCAN,
        onChange: () => {
          changed.value++;
        },
      }),
    [rows],
  );
  // The row in which a person types stays in the page, with its cursor and its keyboard, wherever the text is scrolled.
  const edited = useComputed(() =>
    editing.value === undefined
      ? -1
      : rows.value.findIndex((row) => row.kind === "segment" && row.segment.index === editing.value),
  ).value;
  const rangeExtractor = useMemo(
    () => (range: Range) => withRow(defaultRangeExtractor(range), edited),
    [edited],
  );
  virtual.setOptions({ ...virtual.options, ...layout, rangeExtractor, count: shown.length });
  // The number says that other rows are visible.
  void changed.value;
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  useLayoutEffect(() => watchWidth(scroller.current, width), []);
  // Heights at another width say nothing.
  useLayoutEffect(() => virtual.measure(), [width.value]);
  useLayoutEffect(() => measureShown(virtual), [layout]);
  return virtual;
}

const withRow = (shown: number[], row: number): number[] =>
  row < 0 || shown.includes(row) ? shown : [...shown, row].sort((one, other) => one - other);

/** Corrects the estimates of the rows in the page. The virtualizer does not know those that were right by another estimate. */
function measureShown(virtual: List): void {
  for (const row of virtual.elementsCache.values()) {
    if (row.isConnected) virtual.resizeItem(virtual.indexFromElement(row), row.offsetHeight);
  }
}

function watchWidth(element: HTMLElement | null, width: Signal<number>): (() => void) | undefined {
  if (!element) return undefined;
  const look = () => {
    width.value = element.clientWidth;
  };
  look();
  const observer = new ResizeObserver(look);
  observer.observe(element);
  return () => observer.disconnect();
}
