import type { Command } from "commander";
import type { NotReached } from "../../domain/receipt.ts";
import { toOrganization } from "../../http/console/views.ts";
import { totalBytesOf } from "../../lib/disk-space.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { Admin } from "../../services/admin.ts";
import { storedLimitOf } from "../../services/uploads/upload-space.ts";
import { wholeNumber, wholeNumberOrDefault } from "../frame/arguments.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { noteNamesakes } from "../frame/names.ts";
import { renderFields, rupees, sizeText } from "../frame/output.ts";

type Organization = ReturnType<Admin["accounts"]["showOrganization"]>;

type SettingOptions = {
  name?: string;
  price?: number | "default";
  dailySpendLimit?: number | "default";
  maxQueued?: number | "default";
  requestsPerSecond?: number | "default";
  storedBytes?: number | "default";
  lowCredit?: number | "default";
  weight?: number;
};

/** `shruti orgs …` */
export function registerOrgs(program: Command, context: CliContext): void {
  const orgs = program.command("orgs").description("organizations: who pays, and within which limits");

  withSettings(orgs.command("create").argument("<name>", "name, for people"))
    .description("make an organization; prints its ID")
    .option("--unless-exists", "print the ID of the one that has the name, and change nothing")
    .option("--json", "print JSON")
    .action(async (name: string, options: SettingOptions & { unlessExists?: true; json?: true }) => {
      const admin = await context.openServices();
      const organization = createOrganization(context, admin, { ...settingsOf(options), name }, options);
      if (options.json) context.printJson(toJson(admin, organization));
      else context.printLine(organization.id);
    });

  orgs
    .command("list")
    .description("all organizations but those that were purged")
    .option("--all", "also those that were purged")
    .option("--json", "print JSON")
    .action(async (options: { all?: true; json?: true }) => {
      const admin = await context.openServices();
      const every = admin.accounts.listOrganizations();
      const all = options.all ? every : every.filter(({ purgedAt }) => purgedAt === null);
      if (options.json) {
        context.printJson(all.map((organization) => toJson(admin, organization)));
        return;
      }
      const rows = all.map((organization) => {
        const { id, name, balancePaise, reservedPaise } = organization;
        return [id, name, stateOf(organization), rupees(balancePaise - reservedPaise)];
      });
      context.printTable(["ID", "NAME", "STATE", "AVAILABLE"], rows);
    });

  oneOrganization(orgs.command("show"), context, "one organization, its limits and its credit", (admin, id) =>
    admin.accounts.showOrganization(id),
  );
  oneOrganization(
    orgs.command("disable"),
    context,
    "refuse all its keys from now on; accepted work continues",
    (admin, id) => admin.accounts.disableOrganization(id),
  );
  oneOrganization(orgs.command("enable"), context, "accept its keys again", (admin, id) =>
    admin.accounts.enableOrganization(id),
  );

  registerPurge(orgs, context);

  withSettings(orgs.command("set").argument("<id>", "organization"))
    .description("change the values given; `default` restores the value of the config")
    .option("--name <name>", "name, for people")
    .option("--json", "print JSON")
    .action(async (id: string, options: SettingOptions & { json?: true }) => {
      const admin = await context.openServices();
      const organization = admin.accounts.setOrganization(id, settingsOf(options));
      if (options.name !== undefined)
        noteNamesakes(context, admin.accounts.organizationsNamed(organization.name), id);
      print(context, admin, organization, options);
    });
}

function createOrganization(
  context: CliContext,
  { accounts }: Admin,
  input: Parameters<Admin["accounts"]["createOrganization"]>[0],
  { unlessExists }: { unlessExists?: true },
): Organization {
  if (unlessExists) {
    const { organization, isNew } = accounts.ensureOrganization(input);
    if (!isNew) context.note(`${organization.id} has the name ${organization.name} already.`);
    return organization;
  }
  const organization = accounts.createOrganization(input);
  noteNamesakes(context, accounts.organizationsNamed(organization.name), organization.id);
  return organization;
}

function registerPurge(orgs: Command, context: CliContext): void {
  orgs
    .command("purge")
    .description(
      "remove everything of a customer who leaves: work, recordings, transcripts, keys, endpoints; what accounting needs stays. Continues after an interruption",
    )
    .argument("<id>", "organization")
    .option("--yes", "needed always: this cannot be undone")
    .option("--json", "print JSON")
    .action(async (id: string, options: { yes?: true; json?: true }) => {
      const admin = await context.openServices();
      const { name } = admin.accounts.showOrganization(id);
      if (!options.yes) {
        throw new CommandError("usage", `this removes all content of ${name} (${id}) for good; add --yes`);
      }
      const [{ createPurgeService }, { createReceiptService }, { openTranscriptionAdmin }] =
        await Promise.all([
          import("../../services/purge.ts"),
          import("../../services/receipts.ts"),
          import("../../services/transcriptions/transcription-admin.ts"),
        ]);
      const { database, clock, config, dataDir } = admin;
      const receipts = createReceiptService({ database, clock, dataDir });
      const transcriptions = openTranscriptionAdmin(admin);
      const purges = createPurgeService({ database, clock, config, dataDir, receipts, transcriptions });
      const { organization, copies, notReached } = await purges.purge(id);
      if (options.json) {
        context.printJson({ ...toJson(admin, organization), copies, not_reached: notReached });
        return;
      }
      context.printLine(`${id} is purged. Its receipt: shruti receipts show ${id}`);
      for (const path of copies.removed)
        context.printLine(`removed: ${path}, an older database that held it`);
      for (const { path, reason } of copies.kept) context.printLine(`not removed: ${path}: ${reason}`);
      for (const line of describeNotReached(notReached)) context.printLine(line);
    });
}

function describeNotReached({ backups, backups_count, elsewhere }: NotReached): string[] {
  const more =
    backups_count > backups.length ? [`not reached: ${backups_count - backups.length} more backups`] : [];
  return [
    ...backups.map(
      ({ path, made_at, found }) =>
        `not reached: backup ${path}${made_at === null ? "" : ` of ${made_at}`}${found ? "" : ", which is not there now"}; it may hold the customer`,
    ),
    ...more,
    `not reached: ${elsewhere}`,
  ];
}

function withSettings(command: Command): Command {
  return command
    .option(
      "--price <paise>",
      "paise per hour of audio, or `default`",
      wholeNumberOrDefault(0, 1_000_000_000),
    )
    .option("--daily-spend-limit <paise>", "paise a day; 0: none; or `default`", wholeNumberOrDefault(0))
    .option(
      "--max-queued <n>",
      "waiting transcriptions; 0: no limit; or `default`",
      wholeNumberOrDefault(0, 10_000_000),
    )
    .option(
      "--requests-per-second <n>",
      "of each key, the burst in proportion; 0: no limit; or `default`",
      wholeNumberOrDefault(0, 1_000_000),
    )
    .option(
      "--stored-bytes <n>",
      "bytes of recordings that it may keep, also without credit; 0: no limit; or `default`",
      wholeNumberOrDefault(0),
    )
    .option(
      "--low-credit <paise>",
      "balance below which its credit is low; 0: never; or `default`",
      wholeNumberOrDefault(0),
    )
    .option(
      "--weight <n>",
      "share of turns in the order of work; 2 gets twice as many as 1",
      wholeNumber(1, 1000),
    );
}

const ownOf = (value: number | "default") => (value === "default" ? null : value);

function settingsOf(options: SettingOptions) {
  const { name, price, dailySpendLimit, maxQueued, requestsPerSecond, storedBytes, lowCredit, weight } =
    options;
  return {
    ...(name === undefined ? {} : { name }),
    ...(price === undefined ? {} : { pricePaisePerAudioHour: ownOf(price) }),
    ...(dailySpendLimit === undefined ? {} : { dailySpendLimitPaise: ownOf(dailySpendLimit) }),
    ...(maxQueued === undefined ? {} : { maxQueued: ownOf(maxQueued) }),
    ...(requestsPerSecond === undefined ? {} : { requestsPerSecond: ownOf(requestsPerSecond) }),
    ...(storedBytes === undefined ? {} : { maxStoredBytes: ownOf(storedBytes) }),
    ...(lowCredit === undefined ? {} : { lowCreditPaise: ownOf(lowCredit) }),
    ...(weight === undefined ? {} : { weight }),
  };
}

function oneOrganization(
  command: Command,
  context: CliContext,
  description: string,
  act: (admin: Admin, id: string) => Organization,
): void {
  command
    .description(description)
    .argument("<id>", "organization")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const admin = await context.openServices();
      print(context, admin, act(admin, id), options);
    });
}

function stateOf({ disabledAt, purgeStartedAt, purgedAt }: Organization): string {
  if (purgedAt !== null) return "purged";
  if (purgeStartedAt !== null) return "being purged";
  return disabledAt === null ? "enabled" : "disabled";
}
/** Returns the JSON of an organization, with its own settings and those that apply. */
function toJson({ config, database, dataDir }: Admin, organization: Organization) {
  const disk = { config, diskBytes: () => totalBytesOf(dataDir) };
  return toOrganization(organization, config, storedLimitOf(database.store, disk, organization).bytes);
}

function print(
  context: CliContext,
  admin: Admin,
  organization: Organization,
  options: { json?: true },
): void {
  if (options.json) {
    context.printJson(toJson(admin, organization));
    return;
  }
  const { effective, credit } = toJson(admin, organization);
  const origin = (own: number | null) => (own === null ? " (default)" : "");
  const limit = (value: number, text: string) => (value === 0 ? "none" : text);
  const spend = effective.daily_spend_limit_paise;
  const { max_queued, requests_per_second, max_stored_bytes } = effective;
  context.io.out(
    renderFields([
      ["ID", organization.id],
      ["Name", organization.name],
      ["State", stateOf(organization)],
      ["Created", toTimestamp(organization.createdAt)],
      [
        "Price per audio hour",
        rupees(effective.price_paise_per_audio_hour) + origin(organization.pricePaisePerAudioHour),
      ],
      ["Daily spending limit", limit(spend, rupees(spend)) + origin(organization.dailySpendLimitPaise)],
      ["Waiting at most", limit(max_queued, String(max_queued)) + origin(organization.maxQueued)],
      [
        "Requests per second",
        limit(requests_per_second, String(requests_per_second)) + origin(organization.requestsPerSecond),
      ],
      [
        "Stored at most",
        limit(max_stored_bytes, sizeText(max_stored_bytes)) + origin(organization.maxStoredBytes),
      ],
      ["Stored", sizeText(organization.storedBytes)],
      [
        "Credit is low below",
        limit(effective.low_credit_paise, rupees(effective.low_credit_paise)) +
          origin(organization.lowCreditPaise),
      ],
      ["Weight", String(organization.weight)],
      ["Balance", rupees(credit.balance_paise)],
      ["Reserved", rupees(credit.reserved_paise)],
      ["Available", rupees(credit.available_paise)],
    ]),
  );
}
