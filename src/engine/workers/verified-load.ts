import { statSync } from "node:fs";
import type { DescribedFile } from "../../domain/model-hash.ts";
import type { WorkerRequest } from "../protocol.ts";
import type { LoadedRecognizer, Recognizer } from "../recognizer.ts";

/** Computes the SHA-256 of a file, lower-case hex. */
export type HashFile = (path: string) => Promise<string>;

/**
 * Loads a model, and hashes its files meanwhile: what recognizes is what the manifest says, and evidence may say so.
 *
 * @throws Error for files that are not those of the manifest, or that changed while they were loaded; as
 *   `Recognizer.load`
 */
export async function loadVerified(
  recognizer: Recognizer,
  { files, described = [], device }: Extract<WorkerRequest, { type: "load" }>,
  sha256OfFile: HashFile,
): Promise<LoadedRecognizer> {
  const before = described.map(identityOf);
  const [hashes, loaded] = await Promise.allSettled([
    Promise.all(described.map((file) => problemOf(file, sha256OfFile))),
    recognizer.load(files, device),
  ]);
  // Other bytes say more than what a recognizer makes of them.
  const problem = hashes.status === "fulfilled" ? hashes.value.find((each) => each !== undefined) : undefined;
  if (problem !== undefined) throw new Error(problem);
  if (loaded.status === "rejected") throw loaded.reason;
  if (hashes.status === "rejected") throw hashes.reason;
  const changed = described.find((file, index) => identityOf(file) !== before[index]);
  if (changed) throw new Error(`${changed.path} changed while it was loaded`);
  return loaded.value;
}

async function problemOf(
  { path, sha256 }: DescribedFile,
  sha256OfFile: HashFile,
): Promise<string | undefined> {
  const found = await sha256OfFile(path);
  if (found === sha256) return undefined;
  return `${path} is not the file of its manifest: its SHA-256 is ${found}, and not ${sha256}`;
}

/** Changes with each write to the file, and when another file takes its place. */
function identityOf({ path }: DescribedFile): string {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found ? [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(" ") : "none";
}
