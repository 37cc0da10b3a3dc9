import { type Command, InvalidArgumentError } from "commander";
import { adviseModels, type Candidate, leastMemory } from "../../domain/model-advice.ts";
import { INDIC_600M_OVERALL, SCHEDULED_LANGUAGES } from "../../domain/published-models.ts";
import type { CliContext } from "../frame/context.ts";
import { renderTable } from "../frame/output.ts";

type AdviseOptions = { languages: readonly string[]; memory: number; json?: true };

const UNITS: Readonly<Record<string, number>> = { m: 1e6, g: 1e9 };

/** Reads an amount of memory, such as `8g` or `900m`. */
function readMemory(text: string): number {
  const [, number, unit = ""] = /^(\d{1,6}(?:\.\d)?)([gm])b?$/i.exec(text) ?? [];
  const bytes = Number(number) * (UNITS[unit.toLowerCase()] ?? Number.NaN);
  if (!(bytes > 0)) throw new InvalidArgumentError("It is as 8g or 900m.");
  return bytes;
}

/** Reads codes that are separated by commas. */
function readCodes(text: string): readonly string[] {
  const codes = text.split(",").map((code) => code.trim());
  if (!codes.every((code) => /^[a-z]{2,3}$/.test(code))) throw new InvalidArgumentError("They are as hi,ta.");
  return [...new Set(codes)];
}

/** `shruti models advise` */
export function registerModelsAdvise(models: Command, context: CliContext): void {
  models
    .command("advise")
    .description(
      "which public models to install for some languages, by their published word error rates; works offline, and measures nothing",
    )
    .option(
      "--languages <codes>",
      "separated by commas, such as hi,ta (default: the 22 scheduled languages of India)",
      readCodes,
      SCHEDULED_LANGUAGES,
    )
    .option("--memory <size>", "what the models may need together, such as 8g or 900m", readMemory, 8e9)
    .option("--json", "print JSON")
    .action(({ languages, memory, json }: AdviseOptions) => {
      const advice = adviseModels(languages, memory);
      if (json) {
        context.printJson({
          languages: advice.languages.map(({ language, candidates }) => ({
            language,
            models: candidates.map(candidateJson),
          })),
          install: advice.install.map(({ name, obtain }) => ({ name, obtain })),
          unknown: advice.unknown,
        });
        return;
      }
      const rows = advice.languages.flatMap(({ language, candidates }) =>
        candidates.map((candidate, index) => [index === 0 ? language : "", ...cellsOf(candidate)]),
      );
      const headings = [
        "LANGUAGE",
        "MODEL",
        "WORD ERRORS",
        "MB",
        "MEMORY MB",
        "× REAL TIME",
        "LICENCE",
        "SOURCE",
      ];
      context.io.out(renderTable(headings, rows));
      for (const code of advice.unknown) context.note(`${code}: no model of the list knows it and fits`);
      for (const { name, obtain } of advice.install) context.printLine(`install ${name}: ${obtain}`);
      context.note(
        "error rates are those of the sources, with different normalizations: shruti benchmark measures on your recordings",
      );
      context.note(
        "memory and speed were measured with random weights of the same shape, on one core of an AMD EPYC (Zen 5); TDT models in q8_0",
      );
      context.note(INDIC_600M_OVERALL);
    });
}

const megabytes = (bytes: number) => `${Math.round(bytes / 1e6)}`;

function sourceOf({ source }: Candidate): string {
  if (!source) return "no figure was found";
  const doubt = source.doubt === undefined ? "" : ` (${source.doubt})`;
  return `${source.from}, ${source.testSet}, ${source.date}${doubt}`;
}

function cellsOf(candidate: Candidate): string[] {
  const { model, rate } = candidate;
  const { measured } = model;
  return [
    model.name,
    rate === undefined ? "–" : `${rate} %`,
    megabytes(model.bytes),
    measured ? megabytes(measured.memoryBytes) : "not measured",
    measured ? `${measured.timesRealTime}` : "not measured",
    model.licence,
    sourceOf(candidate),
  ];
}

function candidateJson(candidate: Candidate) {
  const { model, rate, source } = candidate;
  const { name, title, licence, bytes, obtain, measured } = model;
  return {
    ...{ name, title, licence, bytes, obtain },
    word_error_percent: rate ?? null,
    source: source ? { ...source, test_set: source.testSet, testSet: undefined } : null,
    least_memory_bytes: leastMemory(model),
    measured: measured
      ? { memory_bytes: measured.memoryBytes, times_real_time: measured.timesRealTime }
      : null,
  };
}
