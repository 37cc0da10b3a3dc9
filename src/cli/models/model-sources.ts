import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { GivenFile, ModelFamily } from "../../families/contract.ts";
import { FAMILIES } from "../../families/families.ts";
import { asOwnerOf } from "../../lib/rights.ts";
import { isCt2Folder } from "../../model-import/ctranslate2.ts";
import {
  type ImportJob,
  RefusedImport,
  runImport,
  type StagedImport,
} from "../../model-import/import-process.ts";
import { type CardHint, readCardHint } from "../../model-import/model-card.ts";
import type { WeightType } from "../../model-import/quantise.ts";
import { givenSource, invalidFile, type ModelSource } from "../../services/models/models.ts";
import { CommandError } from "../frame/context.ts";

export type SourceOptions = {
  /** The type of the weights; left out: f16 of a checkpoint, and a ggml file as it is. */
  quantise?: WeightType;
  /** Further files of a model that is taken as it is, such as n-gram models. Left out: none. */
  further?: readonly GivenFile[];
  reserveBytes: number;
  onProgress: (done: number) => void;
  onImported: (imported: StagedImport) => void;
};

/** A form of weights from which a model's file is made. The first kind that recognizes a path is taken. */
type ImportedKind = {
  /** For people, with its article. */
  name: string;
  kind: ImportJob["kind"];
  recognizes: (path: string) => boolean;
};

/** A source, and what an admin may want to know of it. */
export type FoundSource = {
  /** For people, with its article. */
  kind: string;
  name: string;
  /** What `ModelService.add` takes. */
  added: ModelSource;
  hint?: CardHint;
  /** Checks what can be checked quickly. @throws Error with the reason why it cannot be added */
  check: () => void;
  /** Reads and checks everything, and writes nothing that stays. */
  rehearse: (directory: string) => Promise<{ bytes: number; sha256: string } | undefined>;
};

const IMPORTED: readonly ImportedKind[] = [
  {
    name: "a CTranslate2 folder",
    kind: "folder",
    recognizes: (path) => isFolder(path) && isCt2Folder({ path }),
  },
  { name: "a Hugging Face folder", kind: "folder", recognizes: isFolder },
  {
    name: "an OpenAI checkpoint",
    kind: "openai",
    recognizes: (path) => /\.pth?$/i.test(path) || isTorchFile(path),
  },
  { name: "a ZIP with a model's folder", kind: "zip", recognizes: isZip },
];

/** A checkpoint of NeMo. The family whose models it becomes knows it by its name. */
const NEMO = { name: "a .nemo file", kind: "nemo" } as const;

/**
 * Finds out what an admin has given.
 *
 * @throws CommandError `not_found`
 */
export function findSource(path: string, options: SourceOptions): FoundSource {
  // The file may be one that only the user who runs this can read.
  return asOwnerOf(path, () => {
    if (!existsSync(path)) throw new CommandError("not_found", `there is no file ${path}`);
    // A folder with the files of a model is taken as it is. One file may be a checkpoint, which a family would take for its own.
    const found = FAMILIES.given(path);
    if (found?.family.roles) return openGiven(found, options.further);
    if (options.further?.length) throw new CommandError("usage", "--ngram is for CTC models alone");
    const family = FAMILIES.list.find(({ imports }) => imports?.test(path) && !isFolder(path));
    if (family) return importSource(NEMO.name, NEMO.kind, path, options, family);
    const imported = IMPORTED.find(({ recognizes }) => recognizes(path));
    return imported
      ? importSource(imported.name, imported.kind, path, options)
      : openModelFile(path, options);
  });
}

function isFolder(path: string): boolean {
  return statSync(path).isDirectory();
}

const ZIP_MAGIC = "PK\x03\x04";
/** Position of the first entry's name in a ZIP. */
const FIRST_NAME_AT = 30;
const MAX_NAME_BYTES = 256;

function isZip(path: string): boolean {
  return beginningOf(path, ZIP_MAGIC.length) === ZIP_MAGIC;
}

/** Reports whether a file begins as those of torch.save: a ZIP whose first entry is a pickle. */
function isTorchFile(path: string): boolean {
  const bytes = beginningOf(path, FIRST_NAME_AT + MAX_NAME_BYTES);
  return bytes.startsWith(ZIP_MAGIC) && /^[^/]+\/data\.pkl/.test(bytes.slice(FIRST_NAME_AT));
}

/** Returns the first bytes of a file, one character each; none of what is not a regular file. */
function beginningOf(path: string, length: number): string {
  if (!statSync(path).isFile()) return "";
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(length);
    return bytes.toString("latin1", 0, readSync(file, bytes, 0, length, 0));
  } finally {
    closeSync(file);
  }
}

type Found = NonNullable<ReturnType<typeof FAMILIES.given>>;

/** Opens the files of a model, to be taken as they are. */
function openGiven({ family, model }: Found, further: readonly GivenFile[] = []): FoundSource {
  const added = givenSource(family, { ...model, files: () => [...model.files(), ...further] });
  return { kind: added.kind, name: added.name, added, check: added.check, rehearse: async () => undefined };
}

/** Opens a file that is a model, to be taken as it is or with smaller weights. */
export function openModelFile(path: string, options: SourceOptions): FoundSource {
  const found = FAMILIES.given(path);
  if (!found) throw new CommandError("usage", `${path} is nothing that can be added`);
  const source = openGiven(found);
  const { quantise } = options;
  if (quantise === undefined || !found.family.canQuantise) return source;
  const importing = importSource(source.kind, "ggml", path, { ...options, quantise }, found.family);
  const name = nameWithType(source.name, quantise);
  return {
    ...importing,
    name,
    added: { ...importing.added, name, check: source.check },
    check: source.check,
  };
}

/** `small-f16` becomes `small-q5_0`, `small` becomes `small-q5_0`. */
export function nameWithType(name: string, type: WeightType): string {
  return `${name.replace(/-f16$/i, "")}-${type}`;
}

function importSource(
  kindName: string,
  kind: ImportJob["kind"],
  path: string,
  { quantise, reserveBytes, onProgress, onImported }: SourceOptions,
  family?: ModelFamily,
): FoundSource {
  const type = quantise ?? "f16";
  const source = resolve(path);
  const run = async (directory: string, isDryRun: boolean): Promise<StagedImport> => {
    try {
      const job = { kind, source, type, reserveBytes, directory, isDryRun, onProgress };
      const imported = await runImport(job);
      onImported(imported);
      return imported;
    } catch (error) {
      throw error instanceof RefusedImport ? invalidFile(error.message) : error;
    }
  };
  const hint = kind === "folder" ? readCardHint(source) : undefined;
  const name = nameOf(source, quantise);
  const check = () => (kind === "folder" ? asOwnerOf(source, () => checkFolder(source)) : undefined);
  const added: ModelSource = {
    kind: kindName,
    name,
    ...(family ? { family } : {}),
    check,
    async stage(directory) {
      const imported = await run(directory, false);
      const { path: staged, bytes, sha256 } = imported;
      if (staged === undefined) throw new Error("The import has written nothing.");
      const licence = hint?.licence && `not stated (the README of the weights says ${hint.licence})`;
      return {
        ...{ path: staged, bytes, sha256, origin: originOf(imported, kindName, basename(source)) },
        ...(licence === undefined ? {} : { licence }),
      };
    },
  };
  return {
    kind: kindName,
    name,
    added,
    check,
    ...(hint ? { hint } : {}),
    rehearse: (directory) => run(directory, true),
  };
}

/** Says early, and of the folder, what the admin may have meant. */
function checkFolder(path: string): void {
  if (existsSync(join(path, "config.json"))) return;
  const below = readdirSync(path).filter((name) => existsSync(join(path, name, "config.json")));
  const snapshots = join(path, "snapshots");
  const hint = existsSync(snapshots)
    ? `: it is a download cache; give one folder of ${snapshots}`
    : below.length > 0
      ? `: did you mean ${join(path, below[0] as string)}?`
      : "";
  throw new Error(`${path} has no config.json, so it is not a model of transformers or CTranslate2${hint}`);
}

/** A folder's name; that of the repository for a snapshot in a download cache, `models--NAME--MODEL/snapshots/HASH`. */
function nameOf(path: string, quantise: WeightType | undefined): string {
  const parent = dirname(path);
  const cached = /^models--.*--([^-].*)$/.exec(basename(dirname(parent)))?.[1];
  const name =
    basename(parent) === "snapshots" && cached !== undefined
      ? cached
      : basename(path).replace(/\.(?:zip|pth?|nemo)$/i, "");
  return quantise === undefined || quantise === "f16" ? name : nameWithType(name, quantise);
}

const MAX_ORIGIN = 900;

/** One line on what the weights were made of, for the manifest. */
function originOf({ sources }: StagedImport, kindName: string, name: string): string {
  const files = sources.map((file) => `${file.name} SHA-256 ${file.sha256}`).join(", ");
  return `imported from ${kindName}, ${JSON.stringify(name)}: ${files}`.slice(0, MAX_ORIGIN);
}
