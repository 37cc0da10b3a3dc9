import { useEffect, useRef } from "preact/hooks";
import { words } from "../words/words.ts";
import { hasWho } from "./rows.ts";
import { SegmentRow } from "./segment-row.tsx";
import type { TranscriptModel } from "./shown-transcript.ts";
import { useVirtualRows } from "./virtual-rows.ts";

/** The rows of a transcript. Only those near the window are in the page, so that 5000 scroll as well as 50. */
export function SegmentList({ model }: { model: TranscriptModel }) {
  const { rows, focused, editing } = model;
  const scroller = useRef<HTMLDivElement>(null);
  const shown = rows.value;
  const virtual = useVirtualRows(model, scroller);
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
