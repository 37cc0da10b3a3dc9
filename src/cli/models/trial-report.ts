import type { LetterWay } from "../../domain/model.ts";
import { VERDICT_WORDS } from "../../domain/trial.ts";
import type { TrialFindings } from "../../services/models/model-adding.ts";
import { renderTable } from "../frame/output.ts";
import type { LanguageTrial, TrialReport } from "./model-trial.ts";
import { shorten } from "./trial-verdict.ts";

/** Returns what a trial has found, for the manifest. */
export function findingsOf({ languages, decoding }: TrialReport): TrialFindings {
  const found = languages.map(({ language, verdict, letters }) => {
    return [language, { trial: verdict, ...letters }] as const;
  });
  return { languages: new Map(found), ...(decoding ? { decoding } : {}) };
}

/** Makes the JSON of a trial. */
export function trialJson({ timesRealTime, memoryBytes, device, ...rest }: TrialReport) {
  return {
    times_real_time: timesRealTime === undefined ? null : Number(timesRealTime.toFixed(2)),
    memory_bytes: memoryBytes,
    device,
    languages: rest.languages.map(({ seconds, letters, ...language }) => ({
      ...language,
      seconds: Number(seconds.toFixed(2)),
      ...(letters ? { letters: letters.letters, decoder_language: letters.decoderLanguage ?? null } : {}),
    })),
    not_tried: rest.notTried,
    heard_in_silence: rest.heardInSilence ?? null,
    heard_in_noise: rest.heardInNoise ?? null,
  };
}

/** Renders a report as lines for people: a table of the languages, then speed and memory, then bad signs. */
export function describeTrial(report: TrialReport): string[] {
  const { timesRealTime, memoryBytes, device, languages, notTried } = report;
  const memory = memoryBytes === 0 ? "" : `, ${Math.round(memoryBytes / 1e6)} MB of memory`;
  const speed =
    timesRealTime === undefined
      ? "the time for its speed was over"
      : `${timesRealTime.toFixed(1)} × real time`;
  const lines = [
    ...(languages.length === 0 ? [] : tableOf(languages)),
    ...languages.flatMap(describeLetters),
    ...(notTried.length === 0
      ? []
      : [`trial: not tried, because there are no samples: ${notTried.join(", ")}`]),
    `trial: ${speed}${memory}, on ${device}`,
  ];
  for (const [where, text] of [
    ["silence", report.heardInSilence],
    ["noise", report.heardInNoise],
  ] as const) {
    if (text === undefined) lines.push(`trial: does not end for ${where}`);
    else if (/[\p{L}\p{N}]/u.test(text))
      lines.push(
        `trial: writes ${JSON.stringify(shorten(text))} for ${where}, without the guards of real work`,
      );
  }
  if (timesRealTime !== undefined && timesRealTime < 1)
    lines.push("trial: the model is slower than real time on this machine");
  return lines;
}

const WRITTEN: Record<LetterWay, string> = {
  own: "in its own letters alone",
  prompted: "in its own letters alone, after a sentence in them",
  either: "in letters of either script",
  other: "in letters of another script, which are rewritten",
};

/** Says which letters the trial has chosen for a language, and from what kind of sample. */
function describeLetters({ language, voice, letters }: LanguageTrial): string[] {
  if (!letters) return [];
  const where = WRITTEN[letters.letters];
  const sample = voice === "person" ? "a person" : "a synthetic voice";
  const code =
    letters.decoderLanguage === undefined ? "" : `, decoder_language = "${letters.decoderLanguage}"`;
  return [
    `trial: ${language} is written ${where}: that had clearly fewer errors with ${sample} (in the manifest: letters = "${letters.letters}"${code})`,
  ];
}

function tableOf(languages: readonly LanguageTrial[]): string[] {
  const rows = languages.map(({ language, verdict, voice, seconds, said, heard }) => [
    language,
    VERDICT_WORDS[verdict],
    voice,
    seconds.toFixed(1),
    shorten(said),
    shorten(heard),
  ]);
  return renderTable(["LANGUAGE", "VERDICT", "VOICE", "SECONDS", "SAID", "HEARD"], rows)
    .split("\n")
    .filter((line) => line !== "");
}
