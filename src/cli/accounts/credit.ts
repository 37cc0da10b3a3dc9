import type { Command } from "commander";
import { toCredit, toLedgerEntry } from "../../http/console/views.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { Admin } from "../../services/admin.ts";
import { type Anchor, anchor, wholeNumber } from "../frame/arguments.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { renderFields, rupees } from "../frame/output.ts";

type Report = ReturnType<Admin["credit"]["audit"]>;

/** `shruti credit …` */
export function registerCredit(program: Command, context: CliContext): void {
  const credit = program.command("credit").description("credit of organizations and the ledger behind it");
  registerGrant(credit, context);

  credit
    .command("show")
    .description("balance, reserved and available credit")
    .requiredOption("--org <id>", "organization")
    .option("--json", "print JSON")
    .action(async (options: { org: string; json?: true }) => {
      const admin = await context.openServices();
      const shown = admin.credit.show(options.org);
      if (options.json) {
        context.printJson({ organization_id: options.org, currency: "INR", ...toCredit(shown) });
        return;
      }
      context.io.out(
        renderFields([
          ["Balance", money(shown.balancePaise)],
          ["Reserved", money(shown.reservedPaise)],
          ["Available", money(shown.availablePaise)],
        ]),
      );
    });

  credit
    .command("ledger")
    .description("entries of an organization, newest first")
    .requiredOption("--org <id>", "organization")
    .option("--limit <n>", "entries to show", wholeNumber(1, 100_000), 100)
    .option("--after <sequence>", "only entries older than this one", wholeNumber(1))
    .option("--json", "print JSON")
    .action(async (options: { org: string; limit: number; after?: number; json?: true }) => {
      const admin = await context.openServices();
      const { limit, after } = options;
      const page = admin.credit.ledger(options.org, { limit, ...(after === undefined ? {} : { after }) });
      if (options.json) {
        context.printJson(page.data.map(toLedgerEntry));
        return;
      }
      const rows = page.data.map((entry) => [
        entry.sequence,
        toTimestamp(entry.createdAt),
        entry.kind,
        rupees(entry.amountPaise),
        entry.transcriptionId ?? entry.note,
      ]);
      context.printTable(["ENTRY", "TIME", "KIND", "AMOUNT", "FOR"], rows);
      if (page.next !== null) context.note(`Older entries: --after ${page.next}`);
    });

  credit
    .command("audit")
    .description(
      "prove the whole ledger and everything derived from it; exit status 1 when something is wrong",
    )
    .option(
      "--anchor <entry:hash>",
      "an entry noted from an earlier audit, which must still stand there",
      anchor,
    )
    .option("--json", "print JSON")
    .action(async (options: { anchor?: Anchor; json?: true }) => {
      const admin = await context.openServices();
      const report = admin.credit.audit(options.anchor);
      if (options.json) context.printJson(auditJson(report));
      else context.io.out(renderAudit(report));
      if (!report.ok) throw new CommandError("failed", `the ledger has ${report.problemCount} problems`);
    });
}

function registerGrant(credit: Command, context: CliContext): void {
  credit
    .command("grant")
    .description("give credit")
    .requiredOption("--org <id>", "organization")
    .requiredOption("--paise <n>", "amount in paise", wholeNumber(-Number.MAX_SAFE_INTEGER))
    .option("--note <text>", "reason, for the books")
    .option("--correction", "take a mistaken grant back: the amount is negative, and a note is needed")
    .option("--json", "print JSON")
    .action(
      async (options: { org: string; paise: number; note?: string; correction?: true; json?: true }) => {
        const { org, paise, note } = options;
        if (options.correction ? paise >= 0 : paise <= 0) {
          throw new CommandError(
            "usage",
            options.correction
              ? "a correction has a negative amount"
              : "a grant has a positive amount; --correction takes one back",
          );
        }
        if (options.correction && note === undefined)
          throw new CommandError("usage", "a correction needs a --note");
        const admin = await context.openServices();
        const input = { organizationId: org, amountPaise: paise, ...(note === undefined ? {} : { note }) };
        const { entry, credit: after } = admin.credit.grant(input);
        if (options.json) context.printJson({ ...toLedgerEntry(entry), credit: toCredit(after) });
        else
          context.printLine(
            `Entry ${entry.sequence}: ${money(paise)}; available now ${money(after.availablePaise)}.`,
          );
      },
    );
}

const money = (paise: number) => `${rupees(paise)} (${paise} paise)`;

function auditJson(report: Report) {
  return {
    ok: report.ok,
    entries: report.entries,
    head: report.head,
    organizations: report.organizations,
    open_reservations: report.openReservations,
    granted_paise: report.grantedPaise,
    charged_paise: report.chargedPaise,
    reserved_paise: report.reservedPaise,
    problem_count: report.problemCount,
    problems: report.problems,
  };
}

function renderAudit(report: Report): string {
  const fields = renderFields([
    ["Entries", String(report.entries)],
    ["Granted", money(report.grantedPaise)],
    ["Charged", money(report.chargedPaise)],
    ["Reserved", `${money(report.reservedPaise)} in ${report.openReservations} open reservations`],
    ["Head", `${report.head.sequence}:${report.head.hash}`],
    ["Outcome", report.ok ? "the ledger holds" : `${report.problemCount} problems`],
  ]);
  return fields + report.problems.map(({ check, detail }) => `${check}: ${detail}\n`).join("");
}
