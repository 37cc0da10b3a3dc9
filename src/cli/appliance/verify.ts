import type { Command } from "commander";
import { readPublicKey } from "../../lib/signatures.ts";
import { plainMessage } from "../../lib/system-error.ts";
import type { Verified } from "../../services/signed/signed-files.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { openKey } from "../frame/key-file.ts";

type Options = { key: string; signature?: string; json?: true };

/** `shruti verify` */
export function registerVerify(program: Command, context: CliContext): void {
  program
    .command("verify")
    .description(
      "verify a release's tarball, its SHA256SUMS or any signed file (exit status 1 when it was changed)",
    )
    .argument("<file>", "tarball, SHA256SUMS, or a file with FILE.sig beside it")
    .requiredOption("--key <file>", "the signer's public key (Ed25519, PEM)")
    .option("--signature <file>", "detached signature, 64 bytes; else the one beside or inside the file")
    .option("--json", "print JSON")
    .action(async (file: string, options: Options) => {
      const verified = await verify(file, options);
      if (options.json) context.printJson(verified);
      else print(context, verified);
    });
}

async function verify(file: string, { key, signature }: Options): Promise<Verified> {
  const { NoSignatureError, verifySignedFile } = await import("../../services/signed/signed-files.ts");
  const publicKey = openKey(key, readPublicKey);
  try {
    return await verifySignedFile(file, publicKey, signature);
  } catch (error) {
    if (error instanceof NoSignatureError) throw new CommandError("not_found", `${file}: ${error.message}`);
    if ((error as { code?: unknown }).code === "ENOENT") {
      throw new CommandError("not_found", plainMessage(error));
    }
    throw error;
  }
}

const MEANS = {
  signature: "by its signature",
  checksums: "by the signed SHA256SUMS beside it",
  contents: "by the signed SHA256SUMS inside it",
} as const satisfies Record<Verified["by"], string>;

function print(context: CliContext, { file, by, key, files }: Verified): void {
  context.printLine(`${file}: verified ${MEANS[by]}, key ${key.slice(0, 16)}`);
  for (const { name, outcome } of files) {
    if (outcome === "absent") context.printLine(`${name}: not here, so not looked at`);
  }
  if (by !== "checksums" && files.length > 0) {
    const count = files.filter(({ outcome }) => outcome === "verified").length;
    context.printLine(`${count} of ${files.length} listed files are as they were signed`);
  }
}
