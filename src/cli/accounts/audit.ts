import { type Command, Option } from "commander";
import { AUDIT_ACTIONS, type AuditAction } from "../../domain/audit.ts";
import { toAuditEntry } from "../../http/console/views.ts";
import { ACTOR_SOURCES, type ActorSource } from "../../lib/actor.ts";
import { csvLine, portions } from "../../lib/csv.ts";
import { printableJson } from "../../lib/printable.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { SignedHead, SignedHeads } from "../../services/audit-heads.ts";
import type { AuditEntry, AuditFilter, AuditVerification } from "../../store/audit-log.ts";
import {
  type Anchor,
  anchor,
  type DateOrInstant,
  dateOrInstant,
  endOf,
  type Since,
  since,
  sinceMs,
  wholeNumber,
} from "../frame/arguments.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { renderFields } from "../frame/output.ts";

type FilterOptions = {
  org?: string;
  object?: string;
  source?: ActorSource[];
  actor?: string;
  action?: AuditAction;
  since?: Since;
  to?: DateOrInstant;
};

/** `shruti audit …`: who has changed what. `shruti credit audit` proves the ledger. */
export function registerAudit(program: Command, context: CliContext): void {
  const audit = program.command("audit").description("the audit log: who has changed what, and when");
  registerList(audit, context);
  registerVerify(audit, context);
  registerExport(audit, context);
}

function withFilter(command: Command): Command {
  return command
    .option("--org <id>", "only of this organization")
    .option("--object <id>", "only of this object: an identifier, or the name of a model")
    .addOption(
      new Option("--source <source...>", "only what came from there, or from one of several").choices(
        ACTOR_SOURCES,
      ),
    )
    .option("--actor <name>", "only of this user, admin or key")
    .addOption(new Option("--action <action>", "only this act").choices(AUDIT_ACTIONS))
    .option("--since <moment>", "only from then on: a duration such as 7d, a day or a time", since)
    .option("--to <day>", "only up to this day, which is included, or before this time", dateOrInstant);
}

function filterOf(context: CliContext, timeZone: string, options: FilterOptions): AuditFilter {
  const { org, object, source, actor, action } = options;
  return {
    ...(org === undefined ? {} : { organizationId: org }),
    ...(object === undefined ? {} : { object }),
    ...(source === undefined ? {} : { sources: source }),
    ...(actor === undefined ? {} : { actor }),
    ...(action === undefined ? {} : { action }),
    ...(options.since === undefined ? {} : { fromMs: sinceMs(timeZone, options.since, context.clock.now()) }),
    ...(options.to === undefined ? {} : { toMs: endOf(timeZone, options.to) }),
  };
}

function registerList(audit: Command, context: CliContext): void {
  withFilter(audit.command("list"))
    .description("entries, newest first")
    .option("--limit <n>", "entries to show", wholeNumber(1, 100_000), 50)
    .option("--after <entry>", "only entries older than this one", wholeNumber(1))
    .option("--json", "print JSON")
    .action(async (options: FilterOptions & { limit: number; after?: number; json?: true }) => {
      const { database, config } = await context.openServices();
      const { listAudit } = await import("../../store/audit-log.ts");
      const { limit, after } = options;
      const filter = filterOf(context, config.billing.timezone, options);
      const page = listAudit(database.store, filter, { limit, ...(after === undefined ? {} : { after }) });
      if (options.json) return context.printJson(page.data.map(toAuditEntry));
      const rows = page.data.map((entry) => [
        entry.sequence,
        toTimestamp(entry.createdAt),
        entry.source === "command_line" ? entry.actor : `${entry.source}: ${entry.actor}`,
        entry.action,
        entry.object,
        changesOf(entry),
      ]);
      context.printTable(["ENTRY", "TIME", "WHO", "ACT", "ON WHAT", "CHANGES"], rows);
      if (page.next !== null) context.note(`Older entries: --after ${page.next}`);
    });
}

function registerVerify(audit: Command, context: CliContext): void {
  audit
    .command("verify")
    .description(
      "prove that no entry was altered or removed, as far as signed heads reach; exit status 1 when one was",
    )
    .option("--anchor <entry:hash>", "an entry noted earlier, which must still be there", anchor)
    .option("--json", "print JSON")
    .action(async (options: { anchor?: Anchor; json?: true }) => {
      const { database, dataDir } = await context.openServices();
      const [{ verifyAudit }, { readSignedHeads }] = await Promise.all([
        import("../../store/audit-log.ts"),
        import("../../services/audit-heads.ts"),
      ]);
      // Read first: the log that is read afterwards has every entry that they name.
      const signed = readSignedHeads(database.store, dataDir);
      const verification = verifyAudit(database.store, [
        ...(options.anchor ? [{ ...options.anchor, known: "noted earlier" }] : []),
        ...signed.heads.map((head) => ({ ...head, known: `signed at ${head.createdAt}` })),
      ]);
      printVerification(context, options, verification, signed);
      const { ok, problemCount } = verification;
      if (!ok) throw new CommandError("failed", `the audit log has ${problemCount} problems`);
    });
}

function printVerification(
  context: CliContext,
  options: { anchor?: Anchor; json?: true },
  { ok, entries, head, problems, problemCount }: AuditVerification,
  signed: SignedHeads,
): void {
  const newest = signed.heads.toSorted((a, b) => a.sequence - b.sequence).at(-1);
  const notProven = notProvenBy(entries, newest, signed.foreign, options.anchor);
  if (options.json) {
    context.printJson({
      ...{ ok, entries, head, problem_count: problemCount, problems, signed_heads: signed.heads.length },
      newest_signed_head: newest
        ? { sequence: newest.sequence, hash: newest.hash, created_at: newest.createdAt }
        : null,
      not_proven: notProven,
    });
    return;
  }
  context.io.out(
    renderFields([
      ["Entries", String(entries)],
      ["Head", `${head.sequence}:${head.hash}`],
      ["Signed head", newest && `entry ${newest.sequence}, signed at ${newest.createdAt}`],
      ["Outcome", ok ? "the audit log holds" : `${problemCount} problems`],
    ]),
  );
  for (const problem of problems) context.printLine(problem);
  for (const claim of notProven) context.printLine(`Not proven: ${claim}`);
}

/** Says what could have been done to the log without being found. */
function notProvenBy(
  entries: number,
  newest: SignedHead | undefined,
  foreign: number,
  given: Anchor | undefined,
): string[] {
  const provenTo = Math.max(newest?.sequence ?? 0, given?.sequence ?? 0);
  const claims: string[] = [];
  if (provenTo === 0)
    claims.push(
      "that the end of the log is there, because no head of it is signed (each start of the server signs one)",
    );
  else if (entries > provenTo)
    claims.push(
      `that the entries after ${provenTo} are all, and as they were written: no signed head is newer`,
    );
  if (newest && given === undefined)
    claims.push(
      "that no person has removed the newest signed heads together with the end of the log, or has signed with signing-key.pem: give --anchor with a head that is kept on another machine, such as audit_head in the log of a start",
    );
  if (foreign > 0)
    claims.push(`what ${foreign} lines of audit-heads.jsonl say: this appliance's key has not signed them`);
  return claims;
}

function registerExport(audit: Command, context: CliContext): void {
  withFilter(audit.command("export"))
    .description("all entries with their hashes, oldest first")
    .addOption(new Option("--format <format>", "how to write them").choices(["csv", "json"]).default("csv"))
    .option("--json", "the same as --format json: one object a line")
    .action(async (options: FilterOptions & { format: "csv" | "json"; json?: true }) => {
      const { database, config } = await context.openServices();
      const { exportAudit } = await import("../../store/audit-log.ts");
      const filter = filterOf(context, config.billing.timezone, options);
      const isJson = options.json || options.format === "json";
      const lines = linesOf(exportAudit(database.store, filter), isJson);
      for (const portion of portions(lines)) context.io.out(portion);
    });
}

function* linesOf(entries: Iterable<AuditEntry>, isJson: boolean): Generator<string> {
  if (!isJson) yield csvLine(COLUMNS);
  for (const entry of entries) {
    if (isJson) yield `${printableJson(toAuditEntry(entry))}\n`;
    else {
      const { before, after } = entry;
      const row = { ...toAuditEntry(entry), before, after };
      yield csvLine(COLUMNS.map((column) => row[column]));
    }
  }
}

const COLUMNS = [
  ...(["entry", "created_at", "source", "actor", "via", "action", "object", "organization_id"] as const),
  ...(["before", "after", "previous_hash", "hash"] as const),
];

/** The values of an entry in one cell, such as `weight 1 → 2`. */
function changesOf(entry: AuditEntry): string {
  const { before, after } = {
    before: toAuditEntry(entry).before ?? {},
    after: toAuditEntry(entry).after ?? {},
  };
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => (before[name] ?? after[name] ?? null) !== null)
    .map((name) => {
      if (!(name in after)) return `${name} was ${before[name]}`;
      return name in before
        ? `${name} ${before[name] ?? "–"} → ${after[name] ?? "–"}`
        : `${name} ${after[name]}`;
    })
    .join(", ");
}
