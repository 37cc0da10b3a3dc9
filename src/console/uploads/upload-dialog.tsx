import { computed, signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { canDrop } from "../lib/pointer.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Icon } from "../parts/icons.tsx";
import { SaidInEnglish } from "../parts/said-in-english.tsx";
import { account, models } from "../session.ts";
import { bytes, count, languageName, length, money, scriptName } from "../words/format.ts";
import { words } from "../words/words.ts";
import {
  type Choices,
  can,
  fitted,
  formsOf,
  languagesOf,
  modelFor,
  modesOfText,
  priceOf,
  textLanguageOf,
} from "./choices.ts";
import { lengthOfFile } from "./length-of-file.ts";
import { addUploads, interruptedFor, pickAgain } from "./uploads.ts";

type Draft = { file: File; seconds: number | undefined; isMeasured: boolean };

export const isUploadOpen = signal(false);
const drafts = signal<readonly Draft[]>([]);
const wanted = signal<Choices>({
  language: "",
  mode: "native",
  model: undefined,
  isDiarized: false,
  speakers: undefined,
  channelMode: "mix",
});

/** What is chosen, as far as the server offers it. */
const choices = computed(() => {
  const first = models.value.find((one) => one.default)?.languages[0]?.code ?? "";
  const { language } = wanted.value;
  return fitted(models.value, { ...wanted.value, language: language === "" ? first : language });
});

const limits = computed(() => models.value[0]?.limits.asynchronous);
const billedChannels = computed(() =>
  choices.value.channelMode === "separate" ? (limits.value?.max_channels ?? 2) : 1,
);

/** A key without the right to see the credit still sees the price: the models have it. */
const hourlyPrice = computed(
  () =>
    account.value?.price_paise_per_audio_hour ??
    modelFor(models.value, choices.value)?.price_paise_per_audio_hour,
);

/** The highest price of a draft; undefined while its length or the price is unknown. */
function highestPrice({ seconds }: Draft): number | undefined {
  const hourly = hourlyPrice.value;
  if (hourly === undefined) return undefined;
  if (hourly === 0) return 0;
  // Browsers and the server measure some formats a little differently.
  return seconds === undefined ? undefined : priceOf(hourly, seconds + 0.5, billedChannels.value);
}

/** Opens the form, with files that were dropped on the page. Files of interrupted uploads go on at once. */
export function offerUpload(files: readonly File[] = []): void {
  const others = files.filter((file) => {
    const interrupted = interruptedFor(file);
    return !(interrupted && pickAgain(interrupted.id, file));
  });
  if (files.length > 0 && others.length === 0) return;
  addDrafts(others);
  isUploadOpen.value = true;
}

function addDrafts(files: readonly File[]): void {
  const added = files.map((file): Draft => ({ file, seconds: undefined, isMeasured: false }));
  drafts.value = [...drafts.value, ...added];
  for (const { file } of added) {
    void lengthOfFile(file).then((seconds) => {
      drafts.value = drafts.value.map((one) =>
        one.file === file ? { file, seconds, isMeasured: true } : one,
      );
    });
  }
}

function close(): void {
  drafts.value = [];
  isUploadOpen.value = false;
}

const faultOf = ({ file }: Draft): string | undefined => {
  const t = words.value.upload;
  if (file.size === 0) return t.emptyFile;
  const most = limits.value?.max_bytes ?? Number.POSITIVE_INFINITY;
  return file.size > most ? t.tooLarge(bytes(most)) : undefined;
};

/** The form for new recordings. */
export function UploadDialog() {
  const t = words.value.upload;
  if (!isUploadOpen.value) return null;
  const usable = drafts.value.filter((draft) => faultOf(draft) === undefined);
  const submit = (event: Event) => {
    event.preventDefault();
    addUploads(
      usable.map((draft) => ({ file: draft.file, choices: choices.value, agreedPaise: highestPrice(draft) })),
    );
    close();
  };
  return (
    <Dialog title={t.title} onClose={close}>
      <form onSubmit={submit} class="upload-form">
        <DropZone />
        <Drafts />
        <ChoiceFields />
        <Price usable={usable} />
        <footer class="dialog-foot">
          <TotalPrice usable={usable} />
          <button type="button" onClick={close}>
            {words.value.cancel}
          </button>
          <button type="submit" class="primary" disabled={usable.length === 0}>
            {t.start(Math.max(1, usable.length))}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function DropZone() {
  const t = words.value.upload;
  const input = useRef<HTMLInputElement>(null);
  return (
    <div class="drop-zone">
      <p>
        {canDrop && `${t.drop} ${t.or} `}
        <button type="button" onClick={() => input.current?.click()}>
          <Icon name="plus" /> {t.pick}
        </button>
      </p>
      <p class="muted small">{t.anyKind}</p>
      <input
        ref={input}
        type="file"
        multiple
        class="unseen"
        tabIndex={-1}
        aria-label={t.pick}
        onChange={({ currentTarget }) => {
          addDrafts([...(currentTarget.files ?? [])]);
          currentTarget.value = "";
        }}
      />
    </div>
  );
}

function Drafts() {
  const t = words.value.upload;
  if (drafts.value.length === 0) return null;
  return (
    <ul class="drafts">
      {drafts.value.map((draft) => {
        const { file, seconds } = draft;
        const fault = faultOf(draft);
        const price = highestPrice(draft);
        return (
          <li key={`${file.name} ${file.size} ${file.lastModified}`}>
            <span class="entry-name">{file.name}</span>
            <span class="muted numbers">
              {bytes(file.size)}
              {seconds !== undefined && ` · ${length(seconds)}`}
              {price !== undefined && ` · ${money(price)}`}
            </span>
            {fault !== undefined && <span class="fault">{fault}</span>}
            <button
              type="button"
              class="quiet"
              onClick={() => {
                drafts.value = drafts.value.filter((one) => one !== draft);
              }}
            >
              <Icon name="close" />
              <span class="unseen">{t.remove(file.name)}</span>
            </button>
          </li>
        );
      })}
    </ul>
  );
}

const change = (patch: Partial<Choices>) => {
  wanted.value = { ...choices.value, ...patch };
};

function ChoiceFields() {
  const t = words.value.upload;
  const { language, model } = choices.value;
  const languages = languagesOf(models.value, model).map(({ code, name }) => ({
    code,
    shown: languageName(code, name),
  }));
  return (
    <div class="choices">
      <label>
        <span>{t.language}</span>
        <select value={language} onChange={({ currentTarget }) => change({ language: currentTarget.value })}>
          {languages
            .sort((a, b) => a.shown.localeCompare(b.shown))
            .map(({ code, shown }) => (
              <option key={code} value={code}>
                {shown}
              </option>
            ))}
        </select>
      </label>
      <label>
        <span>{t.model}</span>
        <select
          value={model ?? ""}
          onChange={({ currentTarget }) =>
            change({ model: currentTarget.value === "" ? undefined : currentTarget.value })
          }
        >
          <option value="">{t.modelAuto}</option>
          {models.value.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <Translation />
      <Modes />
      <TextForm />
      <Channels />
      <Speakers />
      <ModelNotice />
    </div>
  );
}

const isOfferedAnywhere = (mode: Choices["mode"]) =>
  models.value.some(({ languages }) => languages.some(({ modes }) => modes.includes(mode)));

function Modes() {
  const t = words.value.upload;
  const { mode } = choices.value;
  const offered = modesOfText(modelFor(models.value, choices.value), choices.value);
  return (
    <Radios
      name="mode"
      title={t.mode}
      value={mode}
      options={(["native", "codemix", "verbatim"] as const).map((value) => {
        const [label = value, help = ""] = t.modes[value] ?? [];
        return {
          value,
          label,
          help,
          isOffered: offered.includes(value),
          isElsewhere: isOfferedAnywhere(value),
        };
      })}
      onChange={(value) => change({ mode: value })}
    />
  );
}

/** Text in English instead of what was said, where the model can write it. */
function Translation() {
  const t = words.value.upload;
  if (!can(modelFor(models.value, choices.value), "task.translate")) return null;
  return (
    <fieldset>
      <legend>{t.task}</legend>
      <label class="check">
        <input
          type="checkbox"
          checked={choices.value.isTranslated === true}
          onChange={({ currentTarget }) => change({ isTranslated: currentTarget.checked })}
        />
        <span>
          {t.translate} <span class="muted">{t.translateHelp}</span>
        </span>
      </label>
    </fieldset>
  );
}

/** Numbers and script of the text, where the server offers a choice. */
function TextForm() {
  const t = words.value.upload;
  const { numerals = "spoken", script = "native" } = choices.value;
  const forms = formsOf(modelFor(models.value, choices.value), textLanguageOf(choices.value));
  if (!forms) return null;
  return (
    <>
      <label>
        <span>{t.numerals}</span>
        <select
          value={numerals}
          onChange={({ currentTarget: { value } }) =>
            change({ numerals: value === "written" ? "written" : "spoken" })
          }
        >
          {forms.numerals.map((one) => (
            <option key={one} value={one}>
              {one === "written" ? t.numeralsWritten : t.numeralsSpoken}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>{t.script}</span>
        <select value={script} onChange={({ currentTarget }) => change({ script: currentTarget.value })}>
          {forms.scripts.map((one) => (
            <option key={one} value={one}>
              {scriptName(one)}
            </option>
          ))}
        </select>
      </label>
    </>
  );
}

function Channels() {
  const t = words.value.upload;
  const isOffered = can(modelFor(models.value, choices.value), "channel_mode.separate");
  return (
    <Radios
      name="channels"
      title={t.channels}
      value={choices.value.channelMode}
      options={(["mix", "separate"] as const).map((value) => {
        const [label = value, help = ""] = t.channelModes[value] ?? [];
        const isElsewhere = models.value.some((model) => can(model, "channel_mode.separate"));
        return { value, label, help, isOffered: value === "mix" || isOffered, isElsewhere };
      })}
      onChange={(value) => change({ channelMode: value })}
    />
  );
}

type RadiosProps<T extends string> = {
  name: string;
  title: string;
  value: T;
  /** `isElsewhere`: another choice of language or model offers it. */
  options: { value: T; label: string; help: string; isOffered: boolean; isElsewhere: boolean }[];
  onChange: (value: T) => void;
};

function Radios<T extends string>({ name, title, value, options, onChange }: RadiosProps<T>) {
  const t = words.value.upload;
  return (
    <fieldset>
      <legend>{title}</legend>
      {options.map((option) => (
        <label key={option.value} class="check">
          <input
            type="radio"
            name={name}
            checked={value === option.value}
            disabled={!option.isOffered}
            onChange={() => onChange(option.value)}
          />
          <span>
            {option.label}{" "}
            <span class="muted">
              {option.isOffered ? option.help : option.isElsewhere ? t.notOfferedHere : t.notOffered}
            </span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

const MOST_SPEAKERS = 20;

function Speakers() {
  const t = words.value.upload;
  const { isDiarized, speakers } = choices.value;
  const isOffered = can(modelFor(models.value, choices.value), "diarization");
  return (
    <div class="speaker-choice">
      <label class="check">
        <input
          type="checkbox"
          checked={isDiarized}
          disabled={!isOffered}
          onChange={({ currentTarget }) => change({ isDiarized: currentTarget.checked })}
        />
        {t.diarization}
      </label>
      {isDiarized && (
        <label>
          <span>{t.speakers}</span>
          <select
            value={speakers ?? ""}
            onChange={({ currentTarget }) =>
              change({ speakers: currentTarget.value === "" ? undefined : Number(currentTarget.value) })
            }
          >
            <option value="">{t.speakersAuto}</option>
            {Array.from({ length: MOST_SPEAKERS }, (_, index) => index + 1).map((number) => (
              <option key={number} value={number}>
                {count(number)}
              </option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}

function ModelNotice() {
  const notice = modelFor(models.value, choices.value)?.notice;
  return notice === undefined ? null : (
    <div class="note model-notice">
      <Icon name="info" /> <SaidInEnglish isOpen>{notice}</SaidInEnglish>
    </div>
  );
}

type PriceProps = { usable: readonly Draft[] };

/** The highest price of all files of known length, and how many others there are; undefined: no price is known. */
function totalOf(usable: readonly Draft[]): { paise: number; unknown: number } | undefined {
  const known = usable.map(highestPrice).filter((price) => price !== undefined);
  if (known.length === 0) return undefined;
  return { paise: known.reduce((sum, price) => sum + price, 0), unknown: usable.length - known.length };
}

const isMeasuring = (usable: readonly Draft[]) => usable.some((draft) => !draft.isMeasured);

/** The price beside the button that agrees to it. */
function TotalPrice({ usable }: PriceProps) {
  const t = words.value.upload;
  const total = isMeasuring(usable) ? undefined : totalOf(usable);
  return total === undefined ? null : (
    <span class="foot-price">
      {t.atMost(money(total.paise))} {total.unknown > 0 && t.andUnknown(total.unknown)}
    </span>
  );
}

/** What it will cost at most, and what is there. */
function Price({ usable }: PriceProps) {
  const t = words.value.upload;
  const hourly = hourlyPrice.value;
  if (hourly === undefined) return null;
  const left = account.value?.credit.available_paise;
  const total = totalOf(usable);
  return (
    <dl class="price">
      <dt>{t.price}</dt>
      <dd>
        {total && <strong>{t.atMost(money(total.paise))}</strong>}{" "}
        {(total?.unknown ?? usable.length) > 0 &&
          (isMeasuring(usable)
            ? t.measuring
            : `${total ? t.andUnknown(total.unknown) : ""} ${t.priceUnknown}`)}{" "}
        <span class="muted">({t.perHour(money(hourly))})</span>
      </dd>
      {left !== undefined && (
        <>
          <dt>{t.creditAfter}</dt>
          <dd>
            {money(left)}
            {(total?.paise ?? 0) > left && <p class="fault">{t.creditShort}</p>}
          </dd>
        </>
      )}
    </dl>
  );
}
