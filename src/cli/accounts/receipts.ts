import { closeSync, fstatSync, readSync } from "node:fs";
import type { Command } from "commander";
import { toReceipt } from "../../http/console/views.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { openRegularFile } from "../../lib/regular-file.ts";
import { readPublicKey } from "../../lib/signatures.ts";
import { toTimestamp } from "../../lib/time.ts";
import { wholeNumber } from "../frame/arguments.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { openKey } from "../frame/key-file.ts";
import { renderFields } from "../frame/output.ts";
import { readSigned } from "../frame/signed-file.ts";

/** `shruti receipts …`: signed proofs of what was deleted. */
export function registerReceipts(program: Command, context: CliContext): void {
  const receipts = program.command("receipts").description("signed receipts of deletions");

  receipts
    .command("list")
    .description("newest first")
    .option("--org <id>", "only of this organization")
    .option("--limit <n>", "how many", wholeNumber(1, 100_000), 50)
    .option("--json", "print JSON")
    .action(async (options: { org?: string; limit: number; json?: true }) => {
      const { database } = await context.openServices();
      const { listReceipts } = await import("../../store/receipts.ts");
      const { org, limit } = options;
      const rows = listReceipts(database.store, {
        limit,
        ...(org === undefined ? {} : { organizationId: org }),
      });
      if (options.json) {
        context.printJson(rows.map(toReceipt));
        return;
      }
      const cells = rows.map(({ id, object, createdAt }) => [id, object, toTimestamp(createdAt)]);
      context.printTable(["ID", "DELETED", "TIME"], cells);
    });

  receipts
    .command("show")
    .description("print the signed receipt; redirect it into a file, and give the file to the customer")
    .argument("<id>", "receipt, or what was deleted")
    .action(async (id: string) => {
      const { database } = await context.openServices();
      const { findReceipts } = await import("../../store/receipts.ts");
      const row = findReceipts(database.store, id).at(-1);
      if (!row) throw new CommandError("not_found", `there is no receipt ${id}`);
      context.printJson(JSON.parse(row.signed));
    });

  receipts
    .command("key")
    .description("print the public key of this appliance, for those who verify its receipts and evidence")
    .action(async () => {
      const { dataDir } = await context.openServices();
      const [{ openApplianceKey }, { createPublicKey }] = await Promise.all([
        import("../../services/signed/appliance-key.ts"),
        import("node:crypto"),
      ]);
      const pem = createPublicKey(openApplianceKey(dataDir)).export({ type: "spki", format: "pem" });
      context.io.out(pem.toString());
    });

  registerExport(receipts, context);
  registerVerify(receipts, context);
}

function registerExport(receipts: Command, context: CliContext): void {
  receipts
    .command("export")
    .description(
      "print all receipts of an organization, one signed receipt a line; redirect them into a file",
    )
    .requiredOption("--org <id>", "organization")
    .action(async (options: { org: string }) => {
      const { database, accounts } = await context.openServices();
      const { id } = accounts.showOrganization(options.org);
      const { exportReceipts } = await import("../../store/receipts.ts");
      for (const { signed } of exportReceipts(database.store, id)) context.printLine(signed);
    });
}

function registerVerify(receipts: Command, context: CliContext): void {
  receipts
    .command("verify")
    .description(
      "check a receipt, or a file of `receipts export`, on any machine; needs neither config nor data directory",
    )
    .argument("<file>")
    .option(
      "--key <file>",
      "public key of the appliance; without it, only changes since the signature are found",
    )
    .option("--json", "print JSON")
    .action(async (file: string, options: { key?: string; json?: true }) => {
      if (hasManyLines(file)) return verifyLines(context, file, options);
      const [{ document, fingerprint }, { isReceipt }] = await Promise.all([
        readSigned(file, options.key),
        import("../../services/signed/receipt.ts"),
      ]);
      if (!isReceipt(document))
        throw new CommandError("failed", `${file} is not a receipt that this version can read`);
      if (options.json) {
        context.printJson({ ok: true, fingerprint, trusted: options.key !== undefined, document });
        return;
      }
      const { deleted, recording, transcript, removed } = document;
      context.io.out(
        renderFields([
          ["Outcome", options.key === undefined ? "unchanged since it was signed" : "signed with the key"],
          ["Key", fingerprint],
          ["Receipt", document.id],
          ["Deleted", `${deleted.kind} ${deleted.id} of ${deleted.organization_id}`],
          ["When", document.created_at],
          ["By", `${document.by.source}: ${document.by.name}`],
          [
            "Recording",
            recording && `${recording.upload_id}, ${recording.bytes} bytes, SHA-256 ${recording.sha256}`,
          ],
          ["Transcript", transcript && `SHA-256 ${transcript.sha256}`],
          [
            "Removed",
            removed &&
              Object.entries(removed)
                .map(([what, n]) => `${n} ${what}`)
                .join(", "),
          ],
        ]),
      );
      if (options.key === undefined)
        context.note("Compare the key with `shruti receipts key`, or give it with --key.");
    });
}

const FIRST_BYTES = 64 * 1024;
const MAX_LINE_BYTES = 64 * 1024;

/** Reports whether a file has a whole document in its first line, and more lines. A file that cannot be read has not. */
function hasManyLines(file: string): boolean {
  try {
    const descriptor = openRegularFile(file);
    try {
      const head = Buffer.alloc(FIRST_BYTES);
      const text = head.toString("utf8", 0, readSync(descriptor, head));
      const [first = "", ...others] = text.split("\n");
      return others.some((line) => line.trim() !== "") && typeof JSON.parse(first) === "object";
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return false;
  }
}

/** Verifies each line of a file of `receipts export`, which may be large. */
async function verifyLines(
  context: CliContext,
  file: string,
  options: { key?: string; json?: true },
): Promise<void> {
  const [{ verifyDocument }, { isReceipt }, { linesOf }] = await Promise.all([
    import("../../services/signed/signed-documents.ts"),
    import("../../services/signed/receipt.ts"),
    import("../../services/backups/backup-bytes.ts"),
  ]);
  const key = options.key === undefined ? undefined : openKey(options.key, readPublicKey);
  const fingerprints = new Set<string>();
  let verified = 0;
  const descriptor = openRegularFile(file);
  try {
    const region = { descriptor, offset: 0, bytes: fstatSync(descriptor).size };
    for (const line of linesOf(region, MAX_LINE_BYTES)) {
      const { document, fingerprint } = verifyDocument(line, key);
      if (!isReceipt(document)) throw new Error("it is not a receipt that this version can read");
      fingerprints.add(fingerprint);
      verified += 1;
    }
  } catch (error) {
    throw new CommandError("failed", `${file}, line ${verified + 1}: ${errorMessage(error)}`);
  } finally {
    closeSync(descriptor);
  }
  const trusted = options.key !== undefined;
  if (options.json) {
    context.printJson({ ok: true, receipts: verified, fingerprints: [...fingerprints], trusted });
    return;
  }
  const outcome = trusted ? "signed with the key" : "unchanged since they were signed";
  context.printLine(`${verified} receipts, ${outcome}: ${[...fingerprints].join(", ")}`);
  if (!trusted) context.note("Compare the key with `shruti receipts key`, or give it with --key.");
}
