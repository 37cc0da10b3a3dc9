import { sha256Hex } from "../lib/sha256.ts";
import type { ModelFiles, ModelPart } from "./model.ts";

/** What a manifest says about the bytes of a model. An empty hash: it is not known. */
type Described = { sha256?: string; parts?: ModelPart[] };

/**
 * Returns the SHA-256 by which machines find a model: that of its file, or of several files together. Undefined when the
 * caller does not know it.
 */
export function modelHashOf({ sha256, parts }: Described): string | undefined {
  if (parts === undefined || parts.length === 0) return sha256;
  const lines = parts.map((part) => `${part.role} ${part.name} ${part.sha256}`).sort();
  return sha256Hex(lines.join("\n"));
}

/** Roles of which a model may have several files. */
const REPEATED_ROLES: ReadonlySet<string> = new Set(["weights", "ngram"]);

/** Returns the key of a part among the files of its model: the role, and for those that may be repeated the name, too. */
export function fileKeyOf({ role, name }: Pick<ModelPart, "role" | "name">): string {
  return REPEATED_ROLES.has(role) ? `${role}:${name}` : role;
}

/** A file of a model, and the SHA-256 that it must have, lower-case hex. */
export type DescribedFile = { role: string; path: string; sha256: string };

/** Lists the files of a model with their hashes, as far as these are known. */
export function describedFiles({ sha256, parts, files }: Described & { files: ModelFiles }): DescribedFile[] {
  const described =
    parts === undefined || parts.length === 0
      ? [{ role: "weights", path: files.weights, sha256 }]
      : parts.map((part) => ({ role: part.role, path: files[fileKeyOf(part)], sha256: part.sha256 }));
  return described.filter((file): file is DescribedFile => Boolean(file.path) && Boolean(file.sha256));
}
