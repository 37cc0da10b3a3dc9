import { useComputed } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { interfaceLanguage, pausesWhileTyping } from "../lib/preferences.ts";
import { numberOf, speakerName, swatchOf } from "../notes/speakers.ts";
import { Icon } from "../parts/icons.tsx";
import { clock, directionOf, length } from "../words/format.ts";
import { words } from "../words/words.ts";
import { correct, edit, playRow } from "./acts.ts";
import { doubtOf, type Row, type Segment, spokenOf } from "./rows.ts";
import { SegmentText, startOfWord } from "./segment-text.tsx";
import type { TranscriptModel } from "./shown-transcript.ts";

/** A second click that comes sooner belongs to the first. */
const DOUBLE_CLICK_MS = 300;

/** How long the sound is silent after the last key, where a person wants that. */
const TYPING_PAUSE_MS = 1500;

type RowProps = {
  model: TranscriptModel;
  row: Row;
  index: number;
  count: number;
  /** Distance from the top of the list, pixels. */
  top: number;
  measure: (element: HTMLLIElement | null) => void;
  /** It begins with the name of its speaker or channel. */
  hasWho: boolean;
};

/** One row: a segment, a gap, or sound without words. It is drawn again only when something of its own has changed. */
export function SegmentRow({ model, row, index, count, top, measure, hasWho }: RowProps) {
  const isHeard = useComputed(() => model.heard.value === index && row.start !== undefined).value;
  const isFocused = useComputed(() => model.focused.value === index).value;
  const names = [
    "segment-row",
    row.kind,
    hasWho && "new-speaker",
    isHeard && "heard",
    isFocused && "focused",
  ];
  return (
    <li
      class={names.filter(Boolean).join(" ")}
      aria-setsize={count}
      aria-posinset={index + 1}
      aria-current={isHeard ? "true" : undefined}
      data-index={index}
      ref={measure}
      style={{ transform: `translateY(${top}px)` }}
    >
      {row.start === undefined ? <span /> : <TimeButton {...{ model, index, isFocused }} start={row.start} />}
      {row.kind === "segment" ? (
        <SegmentBody {...{ model, index, isFocused, hasWho }} segment={row.segment} />
      ) : (
        <MissingWords row={row} />
      )}
    </li>
  );
}

type TimeProps = { model: TranscriptModel; index: number; start: number; isFocused: boolean };

function TimeButton({ model, index, start, isFocused }: TimeProps) {
  const time = clock(start);
  return (
    <button
      type="button"
      class="quiet time"
      aria-label={words.value.transcript.playFrom(time)}
      tabIndex={isFocused ? 0 : -1}
      onClick={() => playRow(model, index)}
    >
      {time}
    </button>
  );
}

/** Says what is missing at a place, and what to do. */
function MissingWords({ row }: { row: Exclude<Row, { kind: "segment" }> }) {
  const t = words.value;
  if (row.kind === "gap") {
    const { title, what, advice } = t.gaps[row.gap.reason];
    return (
      <p class="missing">
        <Icon name="failed" />{" "}
        <strong>
          {title} · {length(row.end - row.start)}
        </strong>{" "}
        {what} {advice}
      </p>
    );
  }
  return (
    <p class="missing">
      <Icon name="sound" /> <strong>{t.transcript.soundWithoutWords(length(row.end - row.start))}</strong>{" "}
      {t.transcript.soundWithoutWordsHelp}
    </p>
  );
}

type BodyProps = {
  model: TranscriptModel;
  segment: Segment;
  index: number;
  isFocused: boolean;
  hasWho: boolean;
};

function SegmentBody({ model, segment, index, isFocused, hasWho }: BodyProps) {
  const t = words.value.transcript;
  const text = model.textOf(segment.index);
  const isCorrected = model.corrections.all.value.has(segment.index);
  const doubt = isCorrected ? "none" : doubtOf(segment);
  // What is typed stays open until it is saved or given up, also while a person is at another segment.
  const isEdited = useComputed(
    () => model.editing.value === segment.index || model.corrections.drafts.value.has(segment.index),
  );
  const click = useRef<ReturnType<typeof setTimeout>>(undefined);
  // Only the rows that a person is at have the button: the others are lighter.
  const isAtHand = useComputed(() => model.pointed.value === index);
  const open = () => {
    clearTimeout(click.current);
    edit(model, index, segment.index);
  };
  // The first click of two begins no sound.
  const play = (clicks: number, from: number | undefined) => {
    clearTimeout(click.current);
    model.focused.value = index;
    if (clicks <= 1) click.current = setTimeout(() => playRow(model, index, from), DOUBLE_CLICK_MS);
  };
  return (
    <div class="segment-body">
      {hasWho && <Who model={model} segment={segment} />}
      {isEdited.value ? (
        <Editor model={model} segment={segment} text={text} />
      ) : (
        <div class="segment-line">
          <p
            class={`segment-text ${segment.words ? "with-words" : `doubt-${doubt}`}`}
            dir={directionOf(segment.language, text)}
            lang={segment.language}
            tabIndex={isFocused ? 0 : -1}
            onDblClick={open}
            onClick={({ detail, target }) =>
              getSelection()?.isCollapsed !== false && play(detail, startOfWord(target))
            }
            onKeyDown={(event) => {
              if (event.key !== "Enter") return;
              event.preventDefault();
              open();
            }}
          >
            {text === "" ? <Emptied /> : <SegmentText {...{ model, segment, text, index, isCorrected }} />}
            {doubt === "strong" && <span class="unseen"> ({t.unsure})</span>}
          </p>
          {doubt === "strong" && <UnsureTag />}
          {isCorrected && <span class="tag">{t.edited}</span>}
          {(isFocused || isAtHand.value) && (
            <button
              type="button"
              class="quiet edit"
              tabIndex={isFocused ? 0 : -1}
              title={t.edit}
              onClick={open}
            >
              <Icon name="edit" />
              <span class="unseen">{t.edit}</span>
            </button>
          )}
        </div>
      )}
      {model.showsSpoken.value && <Spoken segment={segment} />}
    </div>
  );
}

/** The words as they were said, where the text is in another form. */
function Spoken({ segment }: { segment: Segment }) {
  const spoken = spokenOf(segment);
  if (spoken === undefined) return null;
  return (
    <p class="muted small" dir={directionOf(segment.language, spoken)} lang={segment.language}>
      {spoken}
    </p>
  );
}

/** Says that a text is doubtful. For those who do not see it, the text itself says so. */
function UnsureTag() {
  const { unsure, unsureHelp } = words.value.transcript;
  return (
    <span class="tag tag-unsure" title={unsureHelp} aria-hidden="true">
      {unsure}
    </span>
  );
}

function Who({ model, segment: { speaker, channel } }: { model: TranscriptModel; segment: Segment }) {
  const number = speaker === undefined ? (channel ?? 0) : numberOf(speaker);
  return (
    <span class="who">
      <span class={swatchOf(number)} />
      {speaker === undefined ? "" : speakerName(model.id, speaker)}
      {speaker !== undefined && channel !== undefined && " · "}
      {channel === undefined ? "" : words.value.transcript.channel(channel)}
    </span>
  );
}

/** What there is instead of a text that was corrected to nothing. */
function Emptied() {
  return (
    <span class="muted" lang={interfaceLanguage.value}>
      {words.value.transcript.emptied}
    </span>
  );
}

function Editor({ model, segment, text }: { model: TranscriptModel; segment: Segment; text: string }) {
  const t = words.value.transcript;
  const field = useRef<HTMLTextAreaElement>(null);
  const { editing, called, corrections } = model;
  const isCalled = useComputed(() => (editing.value === segment.index ? called.value : 0)).value;
  const typed = corrections.drafts.value.get(segment.index) ?? text;
  // Before the next key, which is the first of the correction.
  useLayoutEffect(() => {
    if (isCalled === 0 || document.activeElement === field.current) return;
    field.current?.focus();
    field.current?.setSelectionRange(typed.length, typed.length);
  }, [isCalled]);
  const end = () => {
    const row = field.current?.closest<HTMLElement>(".segment-row");
    corrections.setDraft(segment.index, undefined);
    if (editing.value === segment.index) editing.value = undefined;
    // The text takes the focus back, so that the keyboard continues from here.
    requestAnimationFrame(() => row?.querySelector<HTMLElement>(".segment-text")?.focus());
  };
  const save = (value: string) => {
    correct(model, segment.index, value);
    end();
  };
  return (
    <div class="editor">
      <textarea
        ref={field}
        aria-label={t.editing}
        dir={directionOf(segment.language, text)}
        lang={segment.language}
        rows={Math.max(2, Math.ceil(text.length / 70))}
        value={typed}
        onFocus={() => {
          editing.value = segment.index;
        }}
        onInput={({ currentTarget: { value } }) => {
          if (pausesWhileTyping.value) model.player.value?.pauseFor(TYPING_PAUSE_MS);
          corrections.setDraft(segment.index, value === text ? undefined : value);
        }}
        onKeyDown={(event) => {
          if (event.key === "Escape") end();
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(event.currentTarget.value);
        }}
      />
      <div class="row">
        <button type="button" class="primary" onClick={() => save(field.current?.value ?? text)}>
          {t.save}
        </button>
        <button type="button" onClick={end}>
          {words.value.cancel}
        </button>
        {text !== segment.text && (
          <button type="button" onClick={() => save(segment.text)}>
            <Icon name="undo" /> {t.revert}
          </button>
        )}
        <TypingPause />
        <span class="muted small">{t.editHelp}</span>
      </div>
    </div>
  );
}

/** The choice that the sound is silent while a person types. */
function TypingPause() {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={pausesWhileTyping.value}
        onChange={({ currentTarget }) => {
          pausesWhileTyping.value = currentTarget.checked;
        }}
      />
      {words.value.transcript.pauseWhileTyping}
    </label>
  );
}
