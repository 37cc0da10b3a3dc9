import type { Command } from "commander";
import { MAX_DIFFERENCE_MS } from "../../domain/clock-trust.ts";
import { describeDuration, toTimestamp } from "../../lib/time.ts";
import type { ClockVerdict } from "../../services/clock-trust.ts";
import type { CliContext } from "../frame/context.ts";
import { describeOld, findOld } from "../frame/old-content.ts";
import { renderFields } from "../frame/output.ts";

/** `shruti clock …`: whether the clock of this machine is trusted (docs/decisions/clock.md). */
export function registerClock(program: Command, context: CliContext): void {
  const clock = program.command("clock").description("whether the clock of this machine is trusted");

  clock
    .command("show")
    .description(
      "what the clock says, and what it should say; in doubt, nothing is removed because of its age",
    )
    .option("--json", "print JSON")
    .action(async (options: { json?: true }) => {
      const { trust } = await context.openServices();
      const verdict = trust.verdict();
      const old = await findOld(context);
      if (options.json) context.printJson({ ...clockJson(verdict), old });
      else context.io.out(renderFields([...fieldsOf(verdict), ["old by it", describeOld(old)]]));
    });

  clock
    .command("confirm")
    .description("trust what the clock says now; what is old by it is removed for good")
    .option("--json", "print JSON")
    .action(async (options: { json?: true }) => {
      const { trust } = await context.openServices();
      const ended = trust.confirm();
      if (options.json)
        return context.printJson({ confirmed: ended !== undefined, ...clockJson(trust.verdict()) });
      context.printLine(
        ended
          ? `The clock is trusted: ${toTimestamp(ended.atMs)}.`
          : "The clock was trusted already; nothing was changed.",
      );
    });
}

/** What scripts read about the clock. */
export const clockJson = ({ isDoubtful, atMs, knownMs, offsetMs, agreedMs }: ClockVerdict) => ({
  trusted: !isDoubtful,
  clock: toTimestamp(atMs),
  expected: toTimestamp(knownMs),
  offset_seconds: Math.round(offsetMs / 1000),
  agreed_seconds: Math.round(agreedMs / 1000),
});

function fieldsOf(verdict: ClockVerdict): [name: string, value: string][] {
  const { isDoubtful, atMs, knownMs } = verdict;
  return [
    ["clock", toTimestamp(atMs)],
    ...(isDoubtful ? [["expected", `${toTimestamp(knownMs)}, or later`] as [string, string]] : []),
    ["trusted", isDoubtful ? `no: ${describeDoubt(verdict)}` : "yes"],
  ];
}

/** Says in one line what is wrong with a clock in doubt, and how the doubt ends. */
export function describeDoubt({ offsetMs, agreedMs }: ClockVerdict): string {
  const ending = "nothing is removed because of its age until `shruti clock confirm`";
  if (Math.abs(offsetMs) <= MAX_DIFFERENCE_MS)
    return `it was wrong, and agrees again for ${describeDuration(agreedMs)}; ${ending}, or for a day`;
  const where = offsetMs < 0 ? "behind" : "ahead of";
  return `it is ${describeDuration(Math.abs(offsetMs))} ${where} what is known; ${ending}, or until it agrees for a day`;
}
