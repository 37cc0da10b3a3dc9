import { once } from "node:events";
import type { Command } from "commander";
import { languageOf } from "../../domain/languages.ts";
import { scriptRefusal } from "../../transliteration/offered.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { lineTexts } from "./line-texts.ts";
import { withPunctuator } from "./punctuator.ts";

type Options = {
  language: string;
  numerals: string;
  script: string;
  grouping: string;
  digits: string;
  punctuation?: true;
  json?: true;
};
/** Returns what is printed for a line. */
type Rewrite = (line: string) => string;

/** `shruti text` */
export function registerText(program: Command, context: CliContext): void {
  program
    .command("text")
    .description(
      "rewrite lines of standard input: punctuation, numbers, money, dates and times in figures, and text in another script",
    )
    .requiredOption("--language <code>", "language of the lines")
    .option("--numerals <form>", "spoken, or written", "spoken")
    .option(
      "--script <name>",
      "native, latin, iso15919, or a script of the language by its ISO 15924 code, such as deva",
      "native",
    )
    .option("--grouping <way>", "indian (12,34,567), or international (1,234,567)", "indian")
    .option("--digits <which>", "latin, or own: those of the language's script", "latin")
    .option("--punctuation", "add marks and capitals with the installed model of punctuation")
    .option("--json", "print JSON, a line each, with what was changed")
    .action(async (options: Options) => {
      const rewrite = await rewriterOf(options, context);
      if (!options.punctuation) return rewriteLines(context, async (line) => rewrite(line));
      await withPunctuator(context, options.language, (punctuate) =>
        rewriteLines(context, async (line) => rewrite(await punctuate(line))),
      );
    });
}

async function rewriteLines({ io }: CliContext, rewrite: (line: string) => Promise<string>): Promise<void> {
  for await (const line of lineTexts(process.stdin)) {
    const isTaken = io.out(`${await rewrite(line)}\n`);
    if (isTaken === false) await once(process.stdout, "drain");
  }
}

/** Checks the options. */
async function rewriterOf(options: Options, { note }: CliContext): Promise<Rewrite> {
  const { language, script, json } = options;
  if (!languageOf(language)) throw new CommandError("usage", `there is no language ${language}`);
  const numerals = oneOf(options.numerals, ["spoken", "written"] as const, "numerals");
  const grouping = oneOf(options.grouping, ["indian", "international"] as const, "grouping");
  const digits = oneOf(options.digits, ["latin", "own"] as const, "digits");
  const { applyScript, normalizeForScripts } = await import("../../transliteration/apply-script.ts");
  const refusal = scriptRefusal(language, script);
  if (refusal !== undefined) throw new CommandError("usage", `--script ${script}: ${refusal}`);
  const { applyWritten, canBeWritten } = await import("../../written/apply.ts");
  if (numerals === "written" && !canBeWritten(language))
    throw new CommandError("usage", `numbers of ${language} cannot be written yet`);
  return (line) => {
    const spoken = script === "native" ? line : normalizeForScripts(line, language);
    const { text, changes } =
      numerals === "written"
        ? applyWritten(spoken, { language, grouping, digits })
        : { text: spoken, changes: [] };
    const outcome = applyScript(text, { language, script }, changes);
    if ("refusal" in outcome) note(`a line stays in its script: ${outcome.refusal}`);
    const shown = "refusal" in outcome ? { text, spans: changes } : outcome;
    return json ? JSON.stringify({ text: shown.text, written: shown.spans, spoken }) : shown.text;
  };
}

function oneOf<T extends string>(value: string, known: readonly T[], name: string): T {
  const found = known.find((each) => each === value);
  if (found === undefined) throw new CommandError("usage", `--${name} is ${known.join(" or ")}`);
  return found;
}
