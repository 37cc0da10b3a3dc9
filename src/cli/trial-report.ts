import { type TrialVerdict, VERDICT_WORDS } from "../domain/trial.ts";
import type { LanguageTrial, TrialReport } from "./model-trial.ts";
import { renderTable } from "./output.ts";
import { shorten } from "./trial-verdict.ts";

/** Returns the verdicts of a trial, for the manifest. */
export function verdictsOf({ languages }: TrialReport): Map<string, TrialVerdict> {
  return new Map(languages.map(({ language, verdict }) => [language, verdict]));
}

/** Makes the JSON of a trial. */
export function trialJson({ timesRealTime, memoryBytes, device, ...rest }: TrialReport) {
  return {
    times_real_time: timesRealTime === undefined ? null : Number(timesRealTime.toFixed(2)),
    memory_bytes: memoryBytes,
    device,
    languages: rest.languages.map(({ seconds, ...language }) => ({
      ...language,
      seconds: Number(seconds.toFixed(2)),
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
