import type { Command } from "commander";
import { toTimestamp } from "../lib/time.ts";
import { wholeNumber } from "./arguments.ts";
import { type CliContext, CommandError } from "./context.ts";
import { renderFields } from "./output.ts";
import { readSigned } from "./signed-file.ts";

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
      const { listReceipts } = await import("../store/receipts.ts");
      const { org, limit } = options;
      const rows = listReceipts(database.store, {
        limit,
        ...(org === undefined ? {} : { organizationId: org }),
      });
      if (options.json) {
        context.printJson(
          rows.map(({ id, object, organizationId, createdAt }) => ({
            ...{ id, deleted: object, organization_id: organizationId, created_at: toTimestamp(createdAt) },
          })),
        );
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
      const { findReceipts } = await import("../store/receipts.ts");
      const row = findReceipts(database.store, id).at(-1);
      if (!row) throw new CommandError("not_found", `There is no receipt ${id}.`);
      context.printJson(JSON.parse(row.signed));
    });

  receipts
    .command("key")
    .description("print the public key of this appliance, for those who verify its receipts and evidence")
    .action(async () => {
      const { dataDir } = await context.openServices();
      const [{ openApplianceKey }, { createPublicKey }] = await Promise.all([
        import("../services/signed/appliance-key.ts"),
        import("node:crypto"),
      ]);
      const pem = createPublicKey(openApplianceKey(dataDir)).export({ type: "spki", format: "pem" });
      context.io.out(pem.toString());
    });

  registerVerify(receipts, context);
}

function registerVerify(receipts: Command, context: CliContext): void {
  receipts
    .command("verify")
    .description("check a receipt on any machine; needs neither config nor data directory")
    .argument("<file>")
    .option(
      "--key <file>",
      "public key of the appliance; without it, only changes since the signature are found",
    )
    .option("--json", "print JSON")
    .action(async (file: string, options: { key?: string; json?: true }) => {
      const [{ document, fingerprint }, { isReceipt }] = await Promise.all([
        readSigned(file, options.key),
        import("../services/signed/receipt.ts"),
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
