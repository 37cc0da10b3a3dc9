import { generateKeyPairSync } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import type { InstalledModel } from "../../domain/model.ts";
import { writeNewFileNow } from "../../lib/durable-files.ts";
import { asWriterOf } from "../../lib/rights.ts";
import { keyFingerprint, readPrivateKey, readPublicKey } from "../../lib/signatures.ts";
import { plainMessage } from "../../lib/system-error.ts";
import { requireFolderOf } from "../../services/output-folder.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { cleanUpAtEnd } from "../frame/ending.ts";
import { openKey } from "../frame/key-file.ts";
import { counted, renderTable } from "../frame/output.ts";
import { openModels } from "../models/installed-models.ts";
import { tryOut } from "../models/models-add.ts";
import { findingsOf } from "../models/trial-report.ts";

type CreateOptions = { models?: string; executable?: true; backends?: true; key: string; json?: true };
type VerifyOptions = { key: string; json?: true };
type InstallOptions = { key: string; executable?: string; trial: boolean; json?: true };

/** `shruti bundle …` */
export function registerBundle(program: Command, context: CliContext): void {
  const bundle = program
    .command("bundle")
    .description(
      "carry models, the executable and GPU backends to machines without a network, in one signed file",
    );

  bundle
    .command("keygen")
    .description("make an Ed25519 key: FILE is the private key, FILE.pub the public one for the other side")
    .argument("<file>", "where the private key is written")
    .option("--json", "print JSON")
    .action((file: string, options: { json?: true }) => makeKey(context, file, options));

  bundle
    .command("create")
    .description("pack models into a bundle and sign it")
    .argument("<file>", "the bundle, such as carry.tar")
    .requiredOption("--key <file>", "private key, Ed25519, PEM")
    .option("--models <ids>", "installed models, separated by commas")
    .option("--executable", "also this program")
    .option("--backends", "also the GPU backends of the data directory")
    .option("--json", "print JSON")
    .action((file: string, options: CreateOptions) => createBundle(context, file, options));

  bundle
    .command("verify")
    .description("verify the signature and every file of a bundle; nothing is written")
    .argument("<file>", "the bundle")
    .requiredOption("--key <file>", "the signer's public key, Ed25519, PEM")
    .option("--json", "print JSON")
    .action((file: string, options: VerifyOptions) => verifyBundle(context, file, options));

  bundle
    .command("install")
    .description(
      "verify a bundle, then install its models and backends; a running server notices models at once",
    )
    .argument("<file>", "the bundle")
    .requiredOption("--key <file>", "the signer's public key, Ed25519, PEM")
    .option("--executable <path>", "also write the executable there")
    .option("--no-trial", "do not try the models before they are installed")
    .option("--json", "print JSON")
    .action((file: string, options: InstallOptions) => installBundle(context, file, options));
}

function makeKey(context: CliContext, file: string, { json }: { json?: true }): void {
  const publicFile = `${file}.pub`;
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  asWriterOf(file, () => {
    requireFolderOf(resolve(file));
    for (const path of [file, publicFile]) {
      if (existsSync(path)) throw new CommandError("conflict", `there is a file ${path} already`);
    }
    writeNewFileNow(file, privateKey.export({ type: "pkcs8", format: "pem" }).toString(), 0o600);
    writeNewFileNow(publicFile, publicKey.export({ type: "spki", format: "pem" }).toString(), 0o644);
  });
  const fingerprint = keyFingerprint(publicKey);
  if (json) context.printJson({ private_key: file, public_key: publicFile, fingerprint });
  else context.printLine(`${publicFile}: fingerprint ${fingerprint}`);
  context.note(
    `Keep ${file} secret. Admins who install your bundles need ${publicFile}; give it to them by another way.`,
  );
}

async function createBundle(context: CliContext, file: string, options: CreateOptions): Promise<void> {
  const privateKey = openKey(options.key, readPrivateKey);
  const service = await openModels(context);
  const ids = options.models?.split(",").map((id) => id.trim()) ?? [];
  const models = [...new Set(ids)].map((id) => {
    const model = service.find(id);
    if (!model || model.embedded) throw new CommandError("not_found", `there is no installed model ${id}`);
    return model;
  });
  const backends = options.backends ? await listBackends(context) : [];
  if (models.length === 0 && !options.executable && backends.length === 0) {
    throw new CommandError("usage", "name models with --models, or give --executable or --backends");
  }
  if (options.executable && !Bun.isStandaloneExecutable) {
    throw new CommandError("usage", "--executable needs the compiled program, dist/shruti");
  }
  const [bundles, { default: project }] = await Promise.all([
    import("../../services/bundles/bundle-create.ts"),
    import("../../../package.json"),
  ]);
  const { contents, bytes, hashes, key } = await bundles.createBundle(file, {
    models,
    executable: options.executable ? process.execPath : undefined,
    backends,
    version: project.version,
    privateKey,
    createdAt: new Date(context.clock.now()),
  });
  if (options.json) context.printJson({ file, bytes, key, contents, sha256: Object.fromEntries(hashes) });
  else
    context.printLine(
      `${file}: ${counted(hashes.size, "file")}, ${Math.round(bytes / 1e6)} MB, signed with ${key.slice(0, 16)}`,
    );
}

async function listBackends(context: CliContext): Promise<string[]> {
  const { dataDir } = await context.openServices();
  const folder = join(dataDir, "backends");
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => /^libggml-.*\.so$/.test(name)) : [];
  if (names.length === 0) throw new CommandError("not_found", `there is no backend in ${folder}`);
  return names.map((name) => join(folder, name));
}

async function verifyBundle(context: CliContext, file: string, { key, json }: VerifyOptions): Promise<void> {
  const publicKey = openKey(key, readPublicKey);
  const bundles = await import("../../services/bundles/bundle-verify.ts");
  const verified = await named(file, () => bundles.verifyBundle(file, publicKey));
  const { contents, bytes, hashes } = verified;
  if (json) {
    context.printJson({ file, bytes, key: verified.key, contents, sha256: Object.fromEntries(hashes) });
    return;
  }
  context.printLine(`${file}: verified, key ${verified.key.slice(0, 16)}, made ${contents.created_at}`);
  context.io.out(
    renderTable(
      ["SHA-256", "FILE"],
      [...hashes].sort().map(([name, sha256]) => [sha256, name]),
    ),
  );
}

/** Verifies a bundle and installs what it holds, as `shruti bundle install`. */
export async function installBundle(
  context: CliContext,
  file: string,
  options: InstallOptions,
): Promise<void> {
  const publicKey = openKey(options.key, readPublicKey);
  const ending = cleanUpAtEnd();
  try {
    const tryModel = async (model: InstalledModel) => findingsOf(await tryOut(context, model));
    const [bundles, models, { dataDir, config, record }] = await Promise.all([
      import("../../services/bundles/bundle-install.ts"),
      openModels(context, options.trial ? tryModel : undefined),
      context.openServices(),
    ]);
    const done = await named(file, () =>
      bundles.installBundle(file, {
        key: publicKey,
        models,
        backendsDir: join(dataDir, "backends"),
        executable: options.executable,
        reserveBytes: config.storage.reserve_bytes,
      }),
    );
    const installed = done.installed.map(({ id }) => id);
    const { present, backends, executable } = done;
    const after = {
      models: installed.join(","),
      backends: backends.join(","),
      executable: executable ?? null,
    };
    record({ action: "bundle.install", object: file, after });
    if (options.json) context.printJson({ installed, present, backends, executable: executable ?? null });
    for (const id of present) context.note(`${id}: the same model is installed already`);
    for (const name of backends) context.note(`${name}: put into ${join(dataDir, "backends")}`);
    if (!options.json) for (const id of installed) context.printLine(id);
    if (executable !== undefined) context.note(`the executable was written to ${executable}`);
    else if (done.verified.contents.executable)
      context.note("the bundle holds an executable: --executable PATH writes it");
  } finally {
    ending.stop();
  }
}

/** Names the bundle in the messages about it. */
async function named<T>(file: string, work: () => Promise<T>): Promise<T> {
  const { BundleError } = await import("../../services/bundles/bundle-format.ts");
  try {
    return await work();
  } catch (error) {
    if ((error as { code?: unknown }).code === "ENOENT")
      throw new CommandError("not_found", plainMessage(error));
    if (error instanceof BundleError) throw new CommandError("failed", `${file}: ${error.message}`);
    throw error;
  }
}
