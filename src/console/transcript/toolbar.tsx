import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon, type IconName } from "../parts/icons.tsx";
import { clock } from "../words/format.ts";
import { words } from "../words/words.ts";
import { nextPlace, replaceMatches } from "./acts.ts";
import { SPEEDS } from "./player.ts";
import type { TranscriptModel } from "./shown-transcript.ts";
import { ZOOMS } from "./waveform.tsx";

/** Playing, speed, and following. */
export function PlayBar({ model }: { model: TranscriptModel }) {
  const t = words.value.transcript;
  const player = model.player.value;
  if (!player || player.hasFailed.value) return null;
  const { isPlaying, time, speed, canPlay } = player;
  const seconds = model.result.value?.duration_seconds ?? 0;
  return (
    <div class="play-bar">
      <button type="button" class="primary round" disabled={!canPlay.value} onClick={() => player.toggle()}>
        <Icon name={isPlaying.value ? "pause" : "play"} />
        <span class="unseen">{isPlaying.value ? t.pause : t.play}</span>
      </button>
      <IconButton name="rewind" label={t.back} onClick={() => player.step(-3)} />
      <IconButton name="forward" label={t.forward} onClick={() => player.step(3)} />
      <span class="numbers time-now">
        {clock(time.value)} <span class="muted">/ {clock(seconds)}</span>
      </span>
      <label>
        <span class="unseen">{t.speed}</span>
        <select
          value={String(speed.value)}
          title={t.speed}
          onChange={({ currentTarget }) => player.setSpeed(Number(currentTarget.value))}
        >
          {SPEEDS.map((one) => (
            <option key={one} value={String(one)}>
              {one} ×
            </option>
          ))}
        </select>
      </label>
      <label class="check follow" title={t.followHelp}>
        <input
          type="checkbox"
          checked={model.isFollowing.value}
          onChange={({ currentTarget }) => {
            model.isFollowing.value = currentTarget.checked;
          }}
        />
        {t.follow}
      </label>
      <span class="spring" />
      <Zoom model={model} />
    </div>
  );
}

function Zoom({ model: { zoom } }: { model: TranscriptModel }) {
  const t = words.value.transcript;
  const set = (step: number) => {
    zoom.value = Math.min(ZOOMS.length - 1, Math.max(0, step));
  };
  return (
    <span class="zoom">
      <IconButton
        name="minus"
        label={t.zoomOut}
        isDisabled={zoom.value === 0}
        onClick={() => set(zoom.value - 1)}
      />
      <IconButton
        name="plus"
        label={t.zoomIn}
        isDisabled={zoom.value === ZOOMS.length - 1}
        onClick={() => set(zoom.value + 1)}
      />
    </span>
  );
}

type IconButtonProps = { name: IconName; label: string; onClick: () => void; isDisabled?: boolean };

export function IconButton({ name, label, onClick, isDisabled = false }: IconButtonProps) {
  return (
    <button type="button" class="quiet" title={label} disabled={isDisabled} onClick={onClick}>
      <Icon name={name} />
      <span class="unseen">{label}</span>
    </button>
  );
}

/** Where to listen: the legend of the lane, and a way from place to place. */
export function PlacesBar({ model }: { model: TranscriptModel }) {
  const t = words.value.transcript;
  const { places, waveform, focused } = model;
  const count = places.value.length;
  const at = places.value.indexOf(focused.value);
  return (
    <div class="places-bar">
      {waveform.value && (
        <ul class="legend" aria-label={t.lane}>
          <li>
            <span class="key key-words" /> {t.laneWords}
          </li>
          <li>
            <span class="key key-unsure" /> {t.laneUnsure}
          </li>
          <li>
            <span class="key key-gap" /> {t.laneGap}
          </li>
          <li>
            <span class="key key-silent" /> {t.laneSilent}
          </li>
        </ul>
      )}
      <span class="spring" />
      {model.hasSpoken.value && (
        <label class="check" title={t.spokenHelp}>
          <input
            type="checkbox"
            checked={model.showsSpoken.value}
            onChange={({ currentTarget }) => {
              model.showsSpoken.value = currentTarget.checked;
            }}
          />
          {t.spoken}
        </label>
      )}
      <span class={count > 0 ? "places some" : "places muted"}>
        {count > 0 && <Icon name="flag" />} {at >= 0 && `${at + 1} / `}
        {t.places(count)}
      </span>
      <IconButton
        name="left"
        label={t.previousPlace}
        isDisabled={count === 0}
        onClick={() => nextPlace(model, -1)}
      />
      <IconButton
        name="right"
        label={t.nextPlace}
        isDisabled={count === 0}
        onClick={() => nextPlace(model, 1)}
      />
    </div>
  );
}

type SearchBarProps = { model: TranscriptModel; isOpen: boolean; onClose: () => void };

/** Search in the text, and replacing. */
export function SearchBar({ model, isOpen, onClose }: SearchBarProps) {
  const t = words.value.transcript;
  const field = useRef<HTMLInputElement>(null);
  const at = useSignal(0);
  useLayoutEffect(() => {
    if (isOpen) field.current?.focus();
  }, [isOpen]);
  if (!isOpen) return null;
  const { query, matches, focused } = model;
  const count = matches.value.length;
  const show = (index: number) => {
    if (count === 0) return;
    at.value = (index + count) % count;
    focused.value = matches.value[at.value]?.row ?? focused.value;
  };
  const close = () => {
    const list = field.current?.closest(".transcript-main");
    query.value = "";
    onClose();
    // The keyboard continues at the place that was found.
    const row = list?.querySelector<HTMLElement>(".segment-row.focused .segment-text");
    (row ?? list?.querySelector<HTMLElement>(".search-button"))?.focus();
  };
  return (
    <search class="search-bar">
      <Icon name="search" />
      <input
        ref={field}
        type="search"
        aria-label={t.search}
        placeholder={t.search}
        value={query.value}
        onInput={({ currentTarget }) => {
          query.value = currentTarget.value;
          show(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "Escape") close();
          if (event.key === "Enter") show(at.value + (event.shiftKey ? -1 : 1));
        }}
      />
      <span class="muted numbers" role="status">
        {query.value !== "" && t.matches(count, Math.min(at.value, Math.max(0, count - 1)) + 1)}
      </span>
      <IconButton
        name="up"
        label={t.previousMatch}
        isDisabled={count === 0}
        onClick={() => show(at.value - 1)}
      />
      <IconButton
        name="down"
        label={t.nextMatch}
        isDisabled={count === 0}
        onClick={() => show(at.value + 1)}
      />
      <Replace model={model} />
      <IconButton name="close" label={words.value.close} onClick={close} />
    </search>
  );
}

function Replace({ model }: { model: TranscriptModel }) {
  const t = words.value.transcript;
  const by = useSignal("");
  const count = model.matches.value.length;
  return (
    <>
      <input
        type="text"
        aria-label={t.replace}
        placeholder={t.replace}
        value={by.value}
        onInput={({ currentTarget }) => {
          by.value = currentTarget.value;
        }}
      />
      <button type="button" disabled={count === 0} onClick={() => replaceMatches(model, by.value)}>
        {by.value === "" ? t.removeAll(count) : t.replaceAll(count)}
      </button>
    </>
  );
}
