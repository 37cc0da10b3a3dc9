import { statSync } from "node:fs";
import type { DraftModel, PunctuationFiles, SpeakerWeights } from "../../domain/model.ts";
import { type DescribedFile, describedFiles } from "../../domain/model-hash.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import { openPunctuator, type Punctuator } from "../../punctuation/pcs-model.ts";
import type { DiarizeOutcome, WorkerRequest } from "../protocol.ts";
import type { LoadedRecognizer, Recognizer } from "../recognizer.ts";

/** Computes the SHA-256 of a file, lower-case hex. */
export type HashFile = (path: string) => Promise<string>;

/**
 * Loads a model, and hashes its files meanwhile: what recognizes is what the manifest says, and evidence may say so. A draft model
 * with other files is left out: it changes no text, and the model works without.
 *
 * @throws Error for files that are not those of the manifest, or that changed while they were loaded; as
 *   `Recognizer.load`
 */
export async function loadVerified(
  recognizer: Recognizer,
  { files, described = [], device, draft }: Extract<WorkerRequest, { type: "load" }>,
  sha256OfFile: HashFile,
): Promise<LoadedRecognizer> {
  const draftFailure = draft && (await faultOf(draft, sha256OfFile));
  const paths = described.map(({ path }) => path);
  const before = paths.map(identityOf);
  const [hashes, loaded] = await Promise.allSettled([
    Promise.all(described.map((file) => problemOf(file, sha256OfFile))),
    recognizer.load(files, device, draftFailure === undefined ? draft : undefined),
  ]);
  // Other bytes say more than what a recognizer makes of them.
  const problem = hashes.status === "fulfilled" ? hashes.value.find((each) => each !== undefined) : undefined;
  if (problem !== undefined) throw new Error(problem);
  if (loaded.status === "rejected") throw loaded.reason;
  if (hashes.status === "rejected") throw hashes.reason;
  requireSame(paths, before);
  return draftFailure === undefined ? loaded.value : { ...loaded.value, draftFailure };
}

/** Finds what of a draft model's files is not as its manifest says; undefined: nothing. */
async function faultOf(draft: DraftModel, sha256OfFile: HashFile): Promise<string | undefined> {
  try {
    for (const file of describedFiles(draft)) {
      const problem = await problemOf(file, sha256OfFile);
      if (problem !== undefined) return problem;
    }
    return undefined;
  } catch (error) {
    return errorMessage(error);
  }
}

/**
 * Distinguishes speakers with weights, and hashes these before.
 *
 * @throws Error for weights with another SHA-256 than they must have, or that changed meanwhile; what `diarize` throws
 */
export async function diarizeHashed(
  { segmentationPath, embeddingPath, expected = {} }: SpeakerWeights,
  sha256OfFile: HashFile,
  diarize: () => Promise<DiarizeOutcome>,
): Promise<DiarizeOutcome> {
  const paths = [segmentationPath, embeddingPath];
  const before = paths.map(identityOf);
  const [segmentation = "", speaker = ""] = await Promise.all(paths.map((path) => sha256OfFile(path)));
  requireHash(segmentationPath, segmentation, expected.segmentation);
  requireHash(embeddingPath, speaker, expected.speaker);
  const outcome = await diarize();
  requireSame(paths, before);
  return { ...outcome, weightHashes: { segmentation, speaker } };
}

/**
 * Keeps the model of punctuation that was used last.
 *
 * @returns a function that loads a model with the first work for it, and hashes its files before. It throws Error for files with
 *   another SHA-256 than they must have, or that changed meanwhile, and what `openPunctuator` throws
 */
export function keepPunctuator(sha256OfFile: HashFile) {
  let kept: { path: string; opening: Promise<Punctuator> } | undefined;
  return async (files: PunctuationFiles, nativeFiles: NativeFiles): Promise<Punctuator> => {
    if (kept?.path !== files.modelPath)
      kept = { path: files.modelPath, opening: openHashedPunctuator(files, sha256OfFile, nativeFiles) };
    const { opening } = kept;
    try {
      return await opening;
    } catch (error) {
      // The next work tries again: the file may have been put right.
      if (kept?.opening === opening) kept = undefined;
      throw error;
    }
  };
}

async function openHashedPunctuator(
  files: PunctuationFiles,
  sha256OfFile: HashFile,
  nativeFiles: NativeFiles,
): Promise<Punctuator> {
  const { modelPath, tokenizerPath, configPath, expected } = files;
  const paths = [modelPath, tokenizerPath, configPath];
  const before = paths.map(identityOf);
  if (expected) {
    const [model = "", tokenizer = "", config = ""] = await Promise.all(
      paths.map((path) => sha256OfFile(path)),
    );
    requireHash(modelPath, model, expected.model);
    requireHash(tokenizerPath, tokenizer, expected.tokenizer);
    requireHash(configPath, config, expected.config);
  }
  const punctuator = await openPunctuator(nativeFiles, files);
  requireSame(paths, before);
  return punctuator;
}

function requireHash(path: string, found: string, expected: string | undefined): void {
  if (expected === undefined || found === expected) return;
  throw new Error(`the SHA-256 of ${path} is ${found}, and not ${expected}`);
}

/** @throws Error for a file that was written to, or replaced */
function requireSame(paths: readonly string[], before: readonly string[]): void {
  const changed = paths.find((path, index) => identityOf(path) !== before[index]);
  if (changed !== undefined) throw new Error(`${changed} changed while it was loaded`);
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
function identityOf(path: string): string {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found ? [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(" ") : "none";
}
