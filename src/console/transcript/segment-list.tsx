import { useSignal } from "@preact/signals";
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { words } from "../words/words.ts";
import type { TranscriptModel } from "./model.ts";
import type { Row } from "./rows.ts";
import { SegmentRow } from "./segment-row.tsx";

const LINE_PX = 25;
const ROW_PADDING_PX = 14;
const LETTERS_PER_LINE = 80;

function estimate(row: Row | undefined, textOf: (index: number) => string): number {
  if (row?.kind !== "segment") return 3 * LINE_PX;
  const lines = Math.ceil(textOf(row.segment.index).length / LETTERS_PER_LINE);
  return Math.max(1, lines) * LINE_PX + ROW_PADDING_PX;
}

const keyOf = (row: Row | undefined, index: number): string | number =>
  row?.kind === "segment" ? row.segment.index : `${row?.kind} ${row?.start} ${index}`;

/** The rows of a transcript. Only those near the window are in the page, so that 5000 scroll as well as 50. */
export function SegmentList({ model }: { model: TranscriptModel }) {
  const { rows, textOf, focused, editing } = model;
  const scroller = useRef<HTMLDivElement>(null);
  const changed = useSignal(0);
  const shown = rows.value;
  // The virtualizer lays all rows out again when one of these functions is another one.
  const layout = useMemo(
    () => ({
      estimateSize: (index: number) => estimate(shown[index], textOf),
      getItemKey: (index: number) => keyOf(shown[index], index),
    }),
    [shown],
  );
  const virtual = useMemo(
    () =>
      new Virtualizer<HTMLDivElement, HTMLLIElement>({
        count: 0,
        estimateSize: () => LINE_PX,
        getScrollElement: () => scroller.current,
        scrollToFn: elementScroll,
        observeElementRect,
        observeElementOffset,
        overscan: 6,
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
  useEffect(() => {
    virtual.scrollToIndex(focused.value, { align: "auto" });
  }, [focused.value, editing.value]);
  const stopFollowing = () => {
    // A person who reads elsewhere is not pulled back by the sound.
    if (model.player.value?.isPlaying.value) model.isFollowing.value = false;
  };
  return (
    <div class="segments" ref={scroller} onWheel={stopFollowing} onTouchMove={stopFollowing}>
      <ul
        class="segments-all"
        aria-label={words.value.transcript.segments}
        style={{ height: `${virtual.getTotalSize()}px` }}
      >
        {virtual.getVirtualItems().map(({ key, index, start }) => {
          const row = shown[index];
          return row ? (
            <SegmentRow
              key={key}
              {...{ model, row, index, count: shown.length }}
              top={start}
              measure={virtual.measureElement}
              isNewSpeaker={isNewSpeaker(row, shown[index - 1])}
            />
          ) : null;
        })}
      </ul>
    </div>
  );
}

function isNewSpeaker(row: Row, before: Row | undefined): boolean {
  if (row.kind !== "segment" || before?.kind !== "segment") return true;
  const { speaker, channel } = row.segment;
  return speaker !== before.segment.speaker || channel !== before.segment.channel;
}
