import { join } from "node:path";
import type { Command } from "commander";
import { makeFoldersBelow } from "../../lib/output-files.ts";
import type { CatalogueEntry, CatalogueFile } from "../../services/models/catalogue.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { renderFields, renderTable, shellWord } from "../frame/output.ts";
import { openProgress } from "../frame/progress.ts";

type FetchOptions = {
  directory: string;
  acceptUnverified?: true;
  mirror?: string;
  print?: true;
  json?: true;
};

const ORIGIN = "https://huggingface.co";

/** `shruti models fetch` and `shruti models catalogue` */
export function registerModelsFetch(models: Command, context: CliContext): void {
  models
    .command("catalogue")
    .description(
      "models that `models fetch` knows by name, with languages, licence, size and published error rate",
    )
    .argument("[name]", "model")
    .option("--json", "print JSON")
    .action(async (name: string | undefined, { json }: { json?: true }) => {
      const { CATALOGUE } = await import("../../services/models/catalogue.ts");
      const entries = name === undefined ? CATALOGUE : [await findEntry(name)];
      if (json) context.printJson(entries.map(entryJson));
      else if (name === undefined) context.io.out(listOf(entries));
      else for (const entry of entries) context.io.out(renderFields(fieldsOf(entry)));
    });

  models
    .command("fetch")
    .description(
      "download a model of the catalogue and check its SHA-256; what faster-whisper or OpenAI's program have on this machine needs no download, `models add` takes it; continues a download that was interrupted; uses HTTPS_PROXY and NO_PROXY",
    )
    .argument("<name>", "model of `models catalogue`")
    .option("--directory <dir>", "where the file or the model's folder is put", ".")
    .option("--accept-unverified", "also fetch files whose SHA-256 is not known")
    .option("--mirror <url>", `address that takes the place of ${ORIGIN}`, readMirror)
    .option("--print", "print addresses and checksums, and download nothing")
    .option("--json", "print JSON")
    .action(async (name: string, options: FetchOptions) => {
      const entry = await findEntry(name);
      if (options.print) printFiles(context, entry, options);
      else await fetchEntry(context, entry, options);
    });
}

async function findEntry(name: string): Promise<CatalogueEntry> {
  const { CATALOGUE } = await import("../../services/models/catalogue.ts");
  const entry = CATALOGUE.find((one) => one.name === name);
  if (!entry)
    throw new CommandError(
      "not_found",
      `the catalogue has no model ${name}: see shruti models catalogue; models of faster-whisper and OpenAI on this machine need no download, because shruti models add takes them`,
    );
  return entry;
}

export function readMirror(text: string): string {
  if (!/^https?:\/\/[^\s?#]+$/.test(text))
    throw new CommandError("usage", "the mirror is an http or https address");
  return text.replace(/\/+$/, "");
}

const addressOf = ({ url }: CatalogueFile, mirror: string | undefined): string =>
  mirror === undefined ? url : mirror + url.slice(ORIGIN.length);

function printFiles(context: CliContext, entry: CatalogueEntry, { mirror, json }: FetchOptions): void {
  const files = entry.files.map((file) => ({
    name: file.name,
    url: addressOf(file, mirror),
    bytes: file.bytes ?? null,
    sha256: file.sha256 ?? null,
  }));
  if (json) {
    context.printJson(files);
    return;
  }
  for (const { url } of files) context.printLine(url);
  context.printLine("");
  // In the form that `sha256sum -c` reads.
  for (const { name, sha256 } of files) if (sha256 !== null) context.printLine(`${sha256}  ${name}`);
  for (const { name, sha256 } of files)
    if (sha256 === null) context.note(`${name}: its SHA-256 is not known`);
}

async function fetchEntry(context: CliContext, entry: CatalogueEntry, options: FetchOptions): Promise<void> {
  const files = await fetchFiles(context, entry, options);
  report(context, entry, files, options);
}

/** What was fetched of an entry. */
export type FetchedFiles = {
  /** What `models add` takes: the file, or the model's folder. */
  path: string;
  received: readonly { name: string; path: string; sha256: string; verified: boolean }[];
};

/**
 * Downloads the files of an entry below a folder and checks them.
 *
 * @throws CommandError `usage` for files whose SHA-256 are not known, unless the options accept them; Error with the name of
 *   the file that could not be fetched
 */
export async function fetchFiles(
  context: CliContext,
  entry: CatalogueEntry,
  options: Pick<FetchOptions, "directory" | "acceptUnverified" | "mirror">,
): Promise<FetchedFiles> {
  const [{ download }, { unverifiedFiles }] = await Promise.all([
    import("../../lib/download.ts"),
    import("../../services/models/catalogue.ts"),
  ]);
  const unverified = unverifiedFiles(entry).map(({ name }) => name);
  if (unverified.length > 0 && !options.acceptUnverified) {
    throw new CommandError(
      "usage",
      `the SHA-256 of ${unverified.join(", ")} of ${entry.name} are not known, so nobody would notice other content; --accept-unverified fetches them all the same, and weights are checked`,
    );
  }
  const fetched = pathIn(entry, options.directory);
  const folder = isFolder(entry) ? fetched : options.directory;
  makeFoldersBelow(options.directory, folder);
  const received: FetchedFiles["received"][number][] = [];
  for (const file of entry.files) {
    const { name, bytes, sha256 } = file;
    const path = join(folder, name);
    const progress = openProgress(context.io, name);
    try {
      const found = await download({
        url: addressOf(file, options.mirror),
        expected: { ...(bytes === undefined ? {} : { bytes }), ...(sha256 === undefined ? {} : { sha256 }) },
        path,
        reserveBytes: context.loadConfig().config.storage.reserve_bytes,
        onProgress: (done, total) => progress.update(total ? done / total : 0),
      });
      received.push({ name, path, sha256: found, verified: sha256 !== undefined });
    } catch (error) {
      throw new Error(`${name}: ${(error as Error).message}`, { cause: error });
    } finally {
      progress.close();
    }
  }
  return { path: fetched, received };
}

function report(
  context: CliContext,
  entry: CatalogueEntry,
  { path, received }: FetchedFiles,
  { json }: FetchOptions,
): void {
  if (json) context.printJson({ name: entry.name, files: received });
  else
    for (const { path: file, sha256, verified } of received) {
      context.printLine(
        `${file}: SHA-256 ${sha256} ${verified ? "is right" : "was not checked: none is known"}`,
      );
    }
  context.note(`Install it with: ${addCommand(entry, path)}`);
}

/** Returns where `models fetch` puts an entry, below a folder: the path of its file, or of the model's folder. */
export const pathIn = (entry: CatalogueEntry, directory: string): string =>
  join(directory, isFolder(entry) ? entry.name : (entry.files[0]?.name ?? ""));

/** Returns the command that installs what was fetched of an entry. */
export function addCommand(entry: CatalogueEntry, path: string): string {
  const kind = kindOf(entry);
  const languages = entry.languages && kind === undefined ? ` --languages ${entry.languages.join(",")}` : "";
  const given = `${kind === undefined ? "" : `--kind ${kind} `}${shellWord(path)}${languages}`;
  const licence = licenceOf(entry) === undefined ? "" : ` --licence ${entry.licence}`;
  return `shruti models add ${given}${licence} --source ${entry.source}`;
}

/** Returns the licence of an entry; undefined: only its page says it. */
export const licenceOf = ({ licence }: CatalogueEntry): string | undefined =>
  licence.startsWith("see ") ? undefined : licence;

const isFolder = ({ form }: CatalogueEntry) => form === "folder" || form === "punctuation";

/** What an entry is beside the speech models; undefined: a speech model. */
export const kindOf = ({ form }: CatalogueEntry) => (form === "ggml" || form === "folder" ? undefined : form);

function listOf(entries: readonly CatalogueEntry[]): string {
  const rows = entries.map((entry) => [
    entry.name,
    megabytes(entry),
    entry.languages?.join(" ") ?? (kindOf(entry) === "segmentation" ? "all" : "many"),
    entry.licence,
    entry.published ?? purposeOf(entry),
  ]);
  return renderTable(["NAME", "MB", "LANGUAGES", "LICENCE", "PUBLISHED ERROR RATE"], rows);
}

function purposeOf(entry: CatalogueEntry): string {
  const kind = kindOf(entry);
  if (kind === undefined) return "";
  return `${kind === "punctuation" ? "adds punctuation" : "distinguishes speakers"}: --kind ${kind}`;
}

function megabytes({ size }: CatalogueEntry): string {
  return `${size.isRounded ? "≈ " : ""}${Math.round(size.bytes / 1e6)}`;
}

function fieldsOf(entry: CatalogueEntry): [string, string][] {
  const unknown = entry.files.filter(({ sha256 }) => sha256 === undefined).map(({ name }) => name);
  return [
    ["Name", entry.name],
    ["Title", entry.title],
    ["Kind", kindOf(entry) ?? "speech model"],
    ["Languages", entry.languages?.join(", ") ?? (kindOf(entry) === undefined ? "those of Whisper" : "all")],
    ["Licence", entry.licence],
    ["Source", entry.source],
    ["Size", `${megabytes(entry)} MB`],
    ["Error rate", entry.published ? `${entry.published} (its authors; not checked here)` : "none published"],
    ["Files", entry.files.map(({ name }) => name).join(", ")],
    [
      "SHA-256",
      unknown.length === 0 ? "known" : `not known of ${unknown.join(", ")}: needs --accept-unverified`,
    ],
  ];
}

function entryJson({ size, files, ...entry }: CatalogueEntry) {
  return {
    ...entry,
    bytes: size.bytes,
    bytes_rounded: size.isRounded,
    files: files.map((file) => ({ ...file, sha256: file.sha256 ?? null })),
  };
}
