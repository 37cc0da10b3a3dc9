import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Transcription, Usage } from "../../http/wire/schemas.ts";
import { asFailure, type Failure } from "../lib/api.ts";
import { noteName } from "../notes/names.ts";
import { givenNames, numberOf, renameSpeaker, speakerName, swatchOf } from "../notes/speakers.ts";
import { AskingButton } from "../parts/asking-button.tsx";
import { CopyButton } from "../parts/copy-button.tsx";
import { FailureBox } from "../parts/failure-box.tsx";
import { Icon } from "../parts/icons.tsx";
import { askWithKey, hasMetadata, read } from "../session.ts";
import { nameOf, StateMark } from "../transcriptions/list.tsx";
import { chooseMetadata, isUnfinished } from "../transcriptions/transcriptions.ts";
import { languageName, length, moment, money, scriptName } from "../words/format.ts";
import { words } from "../words/words.ts";
import { Downloads } from "./downloads.tsx";
import type { TranscriptModel } from "./shown-transcript.ts";

/** The column beside the transcript: speakers, downloads, and what is known of the recording. */
export function Facts({ model, one }: { model: TranscriptModel; one: Transcription }) {
  return (
    <aside id="facts" class="facts" aria-label={words.value.facts.title}>
      <Warnings model={model} />
      <Speakers model={model} />
      {model.result.value && <Downloads model={model} one={one} />}
      <Details model={model} one={one} />
      <Metadata one={one} />
      <Acts model={model} one={one} />
    </aside>
  );
}

function Warnings({ model }: { model: TranscriptModel }) {
  const t = words.value;
  const warnings = model.result.value?.warnings ?? [];
  if (warnings.length === 0) return null;
  return (
    <section>
      <h2>{t.warningsTitle}</h2>
      <ul class="warnings">
        {warnings.map((warning) => {
          const [what = warning, advice = ""] = t.warnings[warning] ?? [];
          return (
            <li key={warning}>
              <Icon name="info" />
              <span>
                <strong>{what}</strong> {advice}
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Speakers({ model }: { model: TranscriptModel }) {
  const t = words.value.speakers;
  const { id, speakers, hiddenSpeakers, segments } = model;
  if (speakers.value.length === 0) return null;
  const hidden = hiddenSpeakers.value;
  const toggle = (speaker: string) => {
    const next = new Set(hidden);
    if (!next.delete(speaker)) next.add(speaker);
    hiddenSpeakers.value = next;
  };
  const hiddenCount = segments.value.filter(
    ({ speaker }) => speaker !== undefined && hidden.has(speaker),
  ).length;
  return (
    <section>
      <h2>{t.title}</h2>
      <ul class="speakers">
        {speakers.value.map((speaker) => (
          <li key={speaker}>
            <input
              type="checkbox"
              checked={!hidden.has(speaker)}
              aria-label={t.show(speakerName(id, speaker))}
              onChange={() => toggle(speaker)}
            />
            <span class={swatchOf(numberOf(speaker))} />
            <input
              type="text"
              aria-label={`${t.rename}: ${t.numbered(String(numberOf(speaker) + 1))}`}
              placeholder={t.numbered(String(numberOf(speaker) + 1))}
              value={givenNames(id)[speaker] ?? ""}
              onChange={({ currentTarget }) => void renameSpeaker(id, speaker, currentTarget.value)}
            />
          </li>
        ))}
      </ul>
      {hiddenCount > 0 && (
        <p class="small">
          {t.hidden(hiddenCount)}{" "}
          <button
            type="button"
            class="quiet"
            onClick={() => {
              hiddenSpeakers.value = new Set();
            }}
          >
            {t.showAll}
          </button>
        </p>
      )}
      <p class="muted small">{t.help}</p>
    </section>
  );
}

function Details({ model, one }: { model: TranscriptModel; one: Transcription }) {
  const t = words.value;
  const price = useCharge(one);
  const { request, duration_seconds: seconds } = one;
  const result = model.result.value;
  const [mode = request.mode] = t.upload.modes[request.mode] ?? [];
  const [channelMode = ""] = t.upload.channelModes[request.channel_mode] ?? [];
  const took =
    one.finished_at === null
      ? ""
      : t.facts.took(length((Date.parse(one.finished_at) - Date.parse(one.created_at)) / 1000));
  const facts: [string, string | undefined][] = [
    [t.facts.length, seconds === undefined ? undefined : length(seconds)],
    [t.facts.language, languageName(request.language)],
    [t.upload.task, request.task === "translate" ? t.upload.translate : undefined],
    [t.facts.mode, mode],
    [t.upload.numerals, request.numerals === "written" ? t.upload.numeralsWritten : undefined],
    [t.upload.script, request.script === undefined ? undefined : scriptName(request.script)],
    [t.facts.channels, result ? `${result.channels} · ${channelMode}` : channelMode],
    [t.facts.model, `${one.model} ${one.version}`],
    [t.facts.created, moment(one.created_at)],
    [t.facts.finished, one.finished_at === null ? undefined : `${moment(one.finished_at)} (${took})`],
    [t.facts.price, price === undefined ? undefined : money(price)],
  ];
  return (
    <section>
      <h2>{t.facts.title}</h2>
      <p>
        <StateMark state={one.state} />
      </p>
      <label class="name-field">
        <span class="muted">{t.facts.name}</span>
        <input
          type="text"
          value={nameOf(one)}
          title={t.facts.nameHelp}
          onChange={({ currentTarget }) => {
            void noteName(one.id, currentTarget.value);
            // Without a name it is called by its language again.
            currentTarget.value = nameOf(one);
          }}
        />
      </label>
      <dl class="fact-list">
        {facts.map(([name, value]) =>
          value === undefined ? null : (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
        )}
        <div>
          <dt>{t.facts.id}</dt>
          <dd>
            <code>{one.id}</code> <CopyButton text={() => one.id} />
          </dd>
        </div>
      </dl>
    </section>
  );
}

/** What the client has noted of it. A value finds others that have it, where the server searches them. */
function Metadata({ one }: { one: Transcription }) {
  const t = words.value.facts;
  const pairs = Object.entries(one.metadata ?? {});
  if (pairs.length === 0) return null;
  return (
    <section>
      <h2>{t.metadata}</h2>
      <dl class="fact-list metadata">
        {pairs.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {hasMetadata.value ? (
                <button
                  type="button"
                  class="quiet"
                  title={t.metadataSame(name, value)}
                  onClick={() => chooseMetadata([name, value])}
                >
                  {value}
                </button>
              ) : (
                value
              )}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

const USAGE_PAGE = 100;

/** The charge of a transcription that ended lately, for keys that may read it. */
function useCharge(one: Transcription): number | undefined {
  const paise = useSignal<number | undefined>(undefined);
  useEffect(() => {
    if (isUnfinished(one)) return;
    void read<Usage>(`v1/usage?limit=${USAGE_PAGE}`)
      .then(({ data }) => {
        paise.value = data.find((event) => event.transcription_id === one.id)?.amount_paise;
      })
      .catch(() => undefined);
  }, [one.id, one.state]);
  return paise.value;
}

/** Cancels or deletes, after a question. */
function Acts({ model, one }: { model: TranscriptModel; one: Transcription }) {
  const t = words.value.facts;
  const failure = useSignal<Failure | undefined>(undefined);
  const isCancel = isUnfinished(one);
  if (!isCancel && one.content_deleted_at !== undefined) return null;
  const act = async () => {
    try {
      const path = `v1/transcriptions/${one.id}`;
      await (isCancel
        ? askWithKey(`${path}/cancel`, { method: "POST" })
        : askWithKey(path, { method: "DELETE" }));
      await model.refresh();
    } catch (error) {
      failure.value = asFailure(error);
    }
  };
  return (
    <section>
      {failure.value && <FailureBox failure={failure.value} isSmall />}
      <AskingButton
        class="quiet fault"
        question={isCancel ? t.cancelSure : t.removeSure}
        yes={isCancel ? t.cancelYes : t.removeYes}
        no={t.keepIt}
        act={() => void act()}
      >
        <Icon name={isCancel ? "close" : "trash"} /> {isCancel ? t.cancelWork : t.remove}
      </AskingButton>
    </section>
  );
}
