import { useSignal } from "@preact/signals";
import type { AudioLink, Transcription } from "../../http/wire/schemas.ts";
import { sameOrigin } from "../lib/address.ts";
import { asFailure, type Failure } from "../lib/api.ts";
import { givenNames } from "../notes/speakers.ts";
import { CopyButton } from "../parts/copy-button.tsx";
import { FailureBox } from "../parts/failure-box.tsx";
import { Icon } from "../parts/icons.tsx";
import { askWithKey, read } from "../session.ts";
import { nameOf } from "../transcriptions/list.tsx";
import { words } from "../words/words.ts";
import {
  asWritten,
  canRender,
  type Edited,
  FORMATS,
  type Format,
  plainName,
  referenceText,
  renderEdited,
  saveAs,
  saveFrom,
} from "./export.ts";
import type { TranscriptModel } from "./shown-transcript.ts";

const ENDINGS: Record<Format, string> = { srt: "srt", vtt: "vtt", text: "txt", json: "json" };

/** Downloads: as the server wrote the transcript, or with a person's corrections and names. */
export function Downloads({ model, one }: { model: TranscriptModel; one: Transcription }) {
  const t = words.value.downloads;
  const failure = useSignal<Failure | undefined>(undefined);
  const isOriginal = useSignal(false);
  const corrected = model.corrections.all.value.size;
  const names = givenNames(model.id);
  const isEdited = corrected > 0 || Object.keys(names).length > 0;
  const result = model.result.value;
  if (!result) return null;
  const isSeparate = one.request.channel_mode === "separate";
  const edited: Edited = { result, isSeparate, textOf: model.textOf, nameOf: (speaker) => names[speaker] };
  const wanted = isEdited && !isOriginal.value ? edited : asWritten(result, isSeparate);
  const isRefused = (format: Format) => wanted === edited && !canRender(edited, format);
  const name = plainName(nameOf(one));
  const guarded = (work: () => Promise<void>) => () => {
    failure.value = undefined;
    void work().catch((error) => {
      failure.value = asFailure(error);
    });
  };
  const download = (format: Format) =>
    guarded(async () => {
      const fileName = `${name}.${ENDINGS[format]}`;
      if (wanted === edited) return saveAs(fileName, renderEdited(edited, format));
      const answer = await askWithKey(`v1/transcriptions/${one.id}/result?format=${format}`);
      saveAs(fileName, await answer.blob());
    });
  return (
    <section class="downloads">
      <h2>{t.title}</h2>
      {isEdited && (
        <select
          aria-label={t.title}
          value={isOriginal.value ? "original" : "edited"}
          onChange={({ currentTarget }) => {
            isOriginal.value = currentTarget.value === "original";
          }}
        >
          <option value="edited">{t.corrected(corrected)}</option>
          <option value="original">{t.original}</option>
        </select>
      )}
      <ul class="download-list">
        {FORMATS.map((format) => (
          <li key={format}>
            <button
              type="button"
              class="quiet"
              disabled={isRefused(format)}
              title={isRefused(format) ? t.noTimes : undefined}
              onClick={download(format)}
            >
              <Icon name="download" /> {t.formats[format]}
            </button>
          </li>
        ))}
        <li>
          <CopyButton label={t.copyText} text={() => renderEdited(wanted, "text").trimEnd()} />
        </li>
        {model.player.value && <SoundDownloads {...{ model, one, name, edited, guarded }} />}
      </ul>
      {failure.value && <FailureBox failure={failure.value} isSmall />}
    </section>
  );
}

type SoundProps = {
  model: TranscriptModel;
  one: Transcription;
  name: string;
  edited: Edited;
  guarded: (work: () => Promise<void>) => () => void;
};

/** The recording, alone or as a pair with the corrected text. */
function SoundDownloads({ one, name, edited, guarded }: SoundProps) {
  const t = words.value.downloads;
  const saveRecording = async () => {
    const link = await read<AudioLink>(`v1/transcriptions/${one.id}/audio_links`, { method: "POST" });
    saveFrom(sameOrigin(link.url), `${name}.wav`);
  };
  return (
    <>
      <li>
        <button type="button" class="quiet" onClick={guarded(saveRecording)}>
          <Icon name="sound" /> {t.recording}
        </button>
      </li>
      <li>
        <button
          type="button"
          class="quiet"
          title={t.pairHelp}
          onClick={guarded(async () => {
            saveAs(`${name}.txt`, referenceText(edited));
            await saveRecording();
          })}
        >
          <Icon name="download" /> {t.pair}
        </button>
      </li>
    </>
  );
}
