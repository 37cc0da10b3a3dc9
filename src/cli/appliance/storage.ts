import type { Command } from "commander";
import { Option } from "commander";
import { type Ages, before } from "../../domain/clock-trust.ts";
import { totalBytesOf } from "../../lib/disk-space.ts";
import type { Admin } from "../../services/admin.ts";
import type { ContentAge } from "../../services/retention.ts";
import { storedLimitOf } from "../../services/uploads/upload-space.ts";
import type { KeptContent } from "../../store/content-size.ts";
import { duration } from "../frame/arguments.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { counted, sizeText } from "../frame/output.ts";

type PruneOptions = {
  olderThan: number;
  org?: string;
  kind: "recordings" | "transcripts" | "all";
  dryRun?: true;
  yes?: true;
  json?: true;
};

/** `shruti storage …` */
export function registerStorage(program: Command, context: CliContext): void {
  const storage = program
    .command("storage")
    .description("what the disk is used for: by organization, and by kind of file")
    .option("--json", "print JSON")
    .action((options: { json?: true }) => show(context, options));

  storage
    .command("prune")
    .description("remove old recordings or transcripts of finished work, also while the server runs")
    .requiredOption("--older-than <age>", "what was finished longer ago, such as 90d", duration)
    .option("--org <id>", "only of this organization")
    .addOption(
      new Option("--kind <kind>", "a transcript is removed together with its recording")
        .choices(["recordings", "transcripts", "all"])
        .default("recordings"),
    )
    .option("--dry-run", "only count; nothing is removed")
    .option("--yes", "remove it; it cannot be brought back")
    .option("--json", "print JSON")
    // `storage` has read --json already, because it has that option, too.
    .action((_options: PruneOptions, command: Command) =>
      prune(context, command.optsWithGlobals<PruneOptions>()),
    );
}

async function show(context: CliContext, options: { json?: true }): Promise<void> {
  const admin = await context.openServices();
  const [{ measureContent }, { measureStorage }] = await Promise.all([
    import("../../store/content-size.ts"),
    import("../../services/storage-use.ts"),
  ]);
  const { uses, freeBytes } = measureStorage(admin.config, admin.dataDir);
  const organizations = usesOf(admin, measureContent(admin.database.store));
  if (options.json) {
    context.printJson({
      organizations,
      kinds: uses,
      free_bytes: freeBytes,
    });
    return;
  }
  context.printTable(
    ["ORGANIZATION", "RECORDINGS", "SIZE", "TAKEN", "AT MOST", "TRANSCRIPTS", "SIZE"],
    organizations.map((one) => [
      one.name,
      one.recordings,
      sizeText(one.recording_bytes),
      sizeText(one.stored_bytes),
      one.max_stored_bytes === 0 ? "no limit" : sizeText(one.max_stored_bytes),
      one.transcripts,
      sizeText(one.transcript_bytes),
    ]),
  );
  context.printLine("");
  context.printTable(
    ["KIND", "FILES", "SIZE", "PLACE"],
    uses.map(({ kind, files, bytes, path }) => [kind, files, sizeText(bytes), path]),
  );
  context.note(`${sizeText(freeBytes)} free; transcripts are in the database`);
}

const NOTHING = { recordings: 0, recordingBytes: 0, transcripts: 0, transcriptBytes: 0 };

const contentJson = (one: KeptContent) => ({
  organization_id: one.organizationId,
  recordings: one.recordings,
  recording_bytes: one.recordingBytes,
  transcripts: one.transcripts,
  transcript_bytes: one.transcriptBytes,
});

/** What each organization keeps and may keep. Those that keep nothing are left out. */
function usesOf({ accounts, config, database, dataDir }: Admin, content: readonly KeptContent[]) {
  const contentOf = new Map(content.map((one) => [one.organizationId, one]));
  const disk = { config, diskBytes: () => totalBytesOf(dataDir) };
  return accounts
    .listOrganizations()
    .filter(({ id, storedBytes }) => storedBytes > 0 || contentOf.has(id))
    .map((organization) => {
      const { id: organizationId } = organization;
      return {
        ...contentJson({ organizationId, ...(contentOf.get(organizationId) ?? NOTHING) }),
        stored_bytes: organization.storedBytes,
        max_stored_bytes: storedLimitOf(database.store, disk, organization).bytes,
        name: organization.name,
      };
    })
    .sort((a, b) => b.stored_bytes - a.stored_bytes);
}

async function prune(context: CliContext, options: PruneOptions): Promise<void> {
  if (options.dryRun && options.yes)
    throw new CommandError("usage", "--dry-run and --yes exclude each other");
  if (!options.dryRun && !options.yes) {
    throw new CommandError("usage", "this removes content for good: look with --dry-run, then give --yes");
  }
  const admin = await context.openServices();
  if (options.org !== undefined) admin.accounts.showOrganization(options.org);
  const finishedBefore = agesNow(admin, options.olderThan);
  const wantsAudio = options.kind !== "transcripts";
  const wantsTranscripts = options.kind !== "recordings";
  if (options.yes) {
    const removed = await removeOld(context, options, {
      audio: wantsAudio ? finishedBefore : undefined,
      transcripts: wantsTranscripts ? finishedBefore : undefined,
    });
    if (options.json) context.printJson({ removed });
    else
      context.printLine(
        `removed: ${counted(removed.recordings, "recording")}, ${counted(removed.transcripts, "transcript")}`,
      );
    return;
  }
  const { measureContent } = await import("../../store/content-size.ts");
  const found = measureContent(admin.database.store, {
    organizationId: options.org,
    finishedBefore,
  }).map((one) => ({
    ...one,
    ...(wantsAudio ? {} : { recordings: 0, recordingBytes: 0 }),
    ...(wantsTranscripts ? {} : { transcripts: 0, transcriptBytes: 0 }),
  }));
  if (options.json) {
    context.printJson({ would_remove: found.map(contentJson) });
    return;
  }
  const names = new Map(admin.accounts.listOrganizations().map(({ id, name }) => [id, name]));
  context.printTable(
    ["ORGANIZATION", "RECORDINGS", "SIZE", "TRANSCRIPTS"],
    found.map((one) => [
      names.get(one.organizationId) ?? one.organizationId,
      one.recordings,
      sizeText(one.recordingBytes),
      one.transcripts,
    ]),
  );
  context.note("nothing was removed; --yes removes it");
}

/** @throws CommandError `conflict` while the clock is in doubt: it would say a wrong age */
function agesNow({ trust }: Admin, olderThanMs: number): Ages {
  const ages = trust.peekAges();
  if (ages) return before(ages, olderThanMs);
  throw new CommandError(
    "conflict",
    "the clock is in doubt, so the age of content is not known; see `shruti clock show`",
  );
}

async function removeOld(
  context: CliContext,
  { org }: PruneOptions,
  age: ContentAge,
): Promise<{ recordings: number; transcripts: number }> {
  const admin = await context.openServices();
  const [
    { removeContentOf },
    { createReceiptService },
    { openTranscriptionAdmin },
    { audioFilePath, removeFile },
  ] = await Promise.all([
    import("../../services/retention.ts"),
    import("../../services/receipts.ts"),
    import("../../services/transcriptions/transcription-admin.ts"),
    import("../../store/audio-files.ts"),
  ]);
  const transcriptions = openTranscriptionAdmin(admin);
  const receipts = createReceiptService(admin);
  const uploads = { removeAudioFile: (id: string) => removeFile(audioFilePath(admin.dataDir, id)) };
  const total = { recordings: 0, transcripts: 0 };
  for (const { id } of admin.accounts.listProjects(org)) {
    const removed = await removeContentOf({ ...admin, transcriptions, uploads, receipts }, id, age);
    total.recordings += removed.audioRemoved;
    total.transcripts += removed.transcriptsRemoved;
  }
  await receipts.mirror();
  return total;
}
