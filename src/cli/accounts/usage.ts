import { type Command, Option } from "commander";
import { portions } from "../../lib/csv.ts";
import { printableJson } from "../../lib/printable.ts";
import { toSeconds, toTimestamp } from "../../lib/time.ts";
import type { Admin } from "../../services/admin.ts";
import { usageCsv } from "../../services/usage-csv.ts";
import { type DateOrInstant, dateOrInstant, endOf, startOf } from "../frame/arguments.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { registerUsageSummary } from "./usage-summary.ts";

type UsageEvent = ReturnType<Admin["credit"]["exportUsage"]> extends Iterable<infer E> ? E : never;

/** `shruti usage …` */
export function registerUsage(program: Command, context: CliContext): void {
  const usage = program.command("usage").description("what organizations used");
  registerUsageSummary(usage, context);
  usage
    .command("export")
    .description("usage events of an organization, oldest first, for accountants")
    .requiredOption("--org <id>", "organization")
    .option("--from <day>", "from this day of billing.timezone, or this RFC 3339 time, on", dateOrInstant)
    .option("--to <day>", "up to the end of this day, or before this time", dateOrInstant)
    .addOption(new Option("--format <format>", "how to write them").choices(["csv", "json"]).default("csv"))
    .option("--json", "the same as --format json")
    .action(
      async (options: {
        org: string;
        from?: DateOrInstant;
        to?: DateOrInstant;
        format: "csv" | "json";
        json?: true;
      }) => {
        const admin = await context.openServices();
        const { timezone } = admin.config.billing;
        const fromMs = options.from && startOf(timezone, options.from);
        const toMs = options.to && endOf(timezone, options.to);
        if (fromMs !== undefined && toMs !== undefined && fromMs >= toMs) {
          throw new CommandError("usage", "--from must be before --to");
        }
        const range = {
          ...(fromMs === undefined ? {} : { fromMs }),
          ...(toMs === undefined ? {} : { toMs }),
        };
        const events = admin.credit.exportUsage(options.org, range);
        const lines = options.json || options.format === "json" ? jsonLines(events) : usageCsv(events);
        for (const portion of portions(lines)) context.io.out(portion);
      },
    );
}

function toJson(event: UsageEvent) {
  return {
    id: event.id,
    object: "usage_event",
    organization_id: event.organizationId,
    project_id: event.projectId,
    transcription_id: event.transcriptionId,
    model: event.modelId,
    state: event.state,
    audio_seconds: toSeconds(event.audioMs),
    billed_seconds: toSeconds(event.billedMs),
    channels: event.channels,
    amount_paise: event.amountPaise,
    created_at: toTimestamp(event.createdAt),
  };
}

/** Writes one JSON array with one event per line. It is never in memory as a whole. */
function* jsonLines(events: Iterable<UsageEvent>): Generator<string> {
  let separator = "[\n";
  for (const event of events) {
    yield `${separator}${printableJson(toJson(event))}`;
    separator = ",\n";
  }
  yield separator === "[\n" ? "[]\n" : "\n]\n";
}
