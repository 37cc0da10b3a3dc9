import { type Signal, useSignal } from "@preact/signals";
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { words } from "../words/words.ts";
import type { TranscriptModel } from "./model.ts";
import { rowHeights } from "./row-heights.ts";
import type { Row } from "./rows.ts";
import { SegmentRow } from "./segment-row.tsx";

const OVERSCAN = 4;

const keyOf = (row: Row | undefined, index: number): string | number =>
  row?.kind === "segment" ? row.segment.index : `${row?.kind} ${row?.start} ${index}`;

/** The rows of a transcript. Only those near the window are in the page, so that 5000 scroll as well as 50. */
export function SegmentList({ model }: { model: TranscriptModel }) {
  const { rows, textOf, focused, editing } = model;
  const scroller = useRef<HTMLDivElement>(null);
  const changed = useSignal(0);
  const shown = rows.value;
  // The virtualizer lays all rows out again when one of these functions is another one.
  const width = useSignal(0);
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
    () =>
      new Virtualizer<HTMLDivElement, HTMLLIElement>({
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
    [model],
  );
  virtual.setOptions({ ...virtual.options, ...layout, count: shown.length });
  // The number says that other rows are visible.
  void changed.value;
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  useLayoutEffect(() => watchWidth(scroller.current, width), []);
  // Heights at another width say nothing.
  useLayoutEffect(() => virtual.measure(), [width.value]);
  useLayoutEffect(() => measureShown(virtual), [layout]);
  useEffect(() => {
    virtual.scrollToIndex(focused.value, { align: "auto" });
  }, [focused.value, editing.value]);
  useEffect(() => listenForReading(scroller.current, model), [model]);
  const point = (event: PointerEvent) => {
    const row = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-index]") : null;
    model.pointed.value = row ? Number(row.dataset.index) : -1;
  };
  return (
    <div class="segments" ref={scroller} onPointerOver={point}>
      <ul
        class="segments-all"
        aria-label={words.value.transcript.segments}
        style={{ height: `${virtual.getTotalSize()}px` }}
      >
        {virtual.getVirtualItems().map(({ key, index, start }) => {
          const row = shown[index];
          return row ? (
            <SegmentRow
              // A row at another place is another one: it knows its index.
              key={`${index} ${key}`}
              {...{ model, row, index, count: shown.length }}
              top={start}
              measure={virtual.measureElement}
              hasWho={hasWho(row, shown[index - 1])}
            />
          ) : null;
        })}
      </ul>
    </div>
  );
}

type List = Virtualizer<HTMLDivElement, HTMLLIElement>;

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

/** A person who reads elsewhere is not pulled back by the sound. The listeners never keep the list from scrolling. */
function listenForReading(element: HTMLElement | null, model: TranscriptModel): () => void {
  const stopFollowing = () => {
    if (model.player.value?.isPlaying.value) model.isFollowing.value = false;
  };
  const events = ["wheel", "touchmove"] as const;
  for (const event of events) element?.addEventListener(event, stopFollowing, { passive: true });
  return () => {
    for (const event of events) element?.removeEventListener(event, stopFollowing);
  };
}

/** Whether a row begins with the name of its speaker or channel: the row before is of another one. */
function hasWho(row: Row, before: Row | undefined): boolean {
  if (row.kind !== "segment") return false;
  const { speaker, channel } = row.segment;
  if (speaker === undefined && channel === undefined) return false;
  if (before?.kind !== "segment") return true;
  return speaker !== before.segment.speaker || channel !== before.segment.channel;
}
