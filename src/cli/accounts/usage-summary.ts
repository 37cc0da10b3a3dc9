import { type Command, InvalidArgumentError, Option } from "commander";
import { csvLine } from "../../lib/csv.ts";
import { dayIn, toSeconds, toTimestamp } from "../../lib/time.ts";
import type { OrganizationUsage, UsageSummary } from "../../services/usage-summary.ts";
import { startOfDay } from "../frame/arguments.ts";
import type { CliContext } from "../frame/context.ts";
import { rupees } from "../frame/output.ts";

type Options = { month?: string; org?: string; format: "table" | "csv" | "json"; json?: true };
type Month = { month: string; timeZone: string; fromMs: number; toMs: number };

/** `shruti usage summary` */
export function registerUsageSummary(usage: Command, context: CliContext): void {
  usage
    .command("summary")
    .description("what each organization used, paid and was granted in a month, with totals")
    .option("--month <month>", "such as 2026-11, in billing.timezone; else the current one", aMonth)
    .option("--org <id>", "only this organization")
    .addOption(
      new Option("--format <format>", "how to write it").choices(["table", "csv", "json"]).default("table"),
    )
    .option("--json", "the same as --format json")
    .action(async (options: Options) => {
      const admin = await context.openServices();
      const { summarizeUsage } = await import("../../services/usage-summary.ts");
      const { timezone } = admin.config.billing;
      const month = monthOf(timezone, options.month ?? dayIn(timezone, context.clock.now()).slice(0, 7));
      const summary = summarizeUsage(admin.database.store, month, options.org);
      if (options.json || options.format === "json") context.printJson(toJson(month, summary));
      else if (options.format === "csv") context.io.out([...csvLines(month, summary)].join(""));
      else printTable(context, month, summary);
    });
}

function aMonth(text: string): string {
  if (/^\d{4}-(0[1-9]|1[0-2])$/.test(text)) return text;
  throw new InvalidArgumentError("Give a month such as 2026-11.");
}

/** Returns the bounds of a month in a time zone. */
function monthOf(timeZone: string, month: string): Month {
  const [year = 0, number = 0] = month.split("-").map(Number);
  const next = number === 12 ? `${year + 1}-01` : `${year}-${String(number + 1).padStart(2, "0")}`;
  return {
    ...{ month, timeZone },
    fromMs: startOfDay(timeZone, `${month}-01`),
    toMs: startOfDay(timeZone, `${next.padStart(7, "0")}-01`),
  };
}

type Totals = Omit<OrganizationUsage, "organization">;

const numbersOf = (usage: Totals) => ({
  transcriptions: usage.transcriptions,
  completed: usage.completed,
  partial: usage.partial,
  failed: usage.failed,
  cancelled: usage.cancelled,
  audio_seconds: toSeconds(usage.audioMs),
  billed_seconds: toSeconds(usage.billedMs),
  amount_paise: usage.amountPaise,
  granted_paise: usage.grantedPaise,
});

function toJson({ month, timeZone, fromMs, toMs }: Month, { organizations, total }: UsageSummary) {
  return {
    ...{ month, timezone: timeZone, from: toTimestamp(fromMs), to: toTimestamp(toMs) },
    organizations: organizations.map(({ organization, ...usage }) => ({
      ...{ organization_id: organization.id, name: organization.name },
      ...numbersOf(usage),
      balance_paise: organization.balancePaise,
    })),
    total: { ...numbersOf(total), balance_paise: total.balancePaise },
  };
}

function* csvLines(month: Month, summary: UsageSummary): Generator<string> {
  const { organizations } = toJson(month, summary);
  const { total } = toJson(month, summary);
  yield csvLine(["month", "organization_id", "name", ...Object.keys(total)]);
  for (const { organization_id, name, ...numbers } of organizations) {
    yield csvLine([month.month, organization_id, name, ...Object.values(numbers)]);
  }
  yield csvLine([month.month, "total", "", ...Object.values(total)]);
}

const hours = (milliseconds: number) => (milliseconds / 3_600_000).toFixed(2);

function printTable(
  context: CliContext,
  { month, timeZone }: Month,
  { organizations, total }: UsageSummary,
): void {
  const row = (name: string, usage: Totals, balancePaise: number) => [
    name,
    usage.transcriptions,
    usage.failed + usage.partial,
    hours(usage.audioMs),
    rupees(usage.amountPaise),
    rupees(usage.grantedPaise),
    rupees(balancePaise),
  ];
  context.printTable(
    ["ORGANIZATION", "ENDED", "FAULTY", "HOURS", "CHARGED", "GRANTED", "BALANCE NOW"],
    [
      ...organizations.map(({ organization, ...usage }) =>
        row(organization.name, usage, organization.balancePaise),
      ),
      row("total", total, total.balancePaise),
    ],
  );
  context.note(`${month} in ${timeZone}; FAULTY: partial or failed, in ENDED as well`);
}
