import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { InstalledModel } from "../../domain/model.ts";
import { writeDurably } from "../../lib/durable-files.ts";

/** What a benchmark on the customer's own recordings has measured. */
export type MeasuredFigures = {
  /** `2026-11-22`. */
  date: string;
  /** The name of the recordings. */
  data: string;
  language: string;
  mode: string;
  recordings: number;
  audioSeconds: number;
  words: number;
  wordErrorRate: number | undefined;
  characterErrorRate: number | undefined;
  timesRealTime: number;
  memoryBytes: number;
  device: string;
};

type Card = { version: string; figures: MeasuredFigures[] };

/** The latest are kept. */
const MAX_FIGURES = 20;
const MAX_BYTES = 256 * 1024;
const FILE_MODE = 0o644;

/** Cards are `<id>.card.json` beside the manifests. A model that is replaced by another version begins a new card. */
function cardPathOf(directory: string, id: string): string {
  return join(directory, `${id}.card.json`);
}

/** Returns what was measured with this version of a model, the latest first. A card that cannot be read is empty. */
export function measuredFigures(
  directory: string,
  { id, version, embedded }: InstalledModel,
): MeasuredFigures[] {
  const path = cardPathOf(directory, id);
  if (embedded) return [];
  try {
    if (statSync(path).size > MAX_BYTES) return [];
    const card = JSON.parse(readFileSync(path, "utf8")) as Card;
    return card.version === version && Array.isArray(card.figures) ? card.figures : [];
  } catch {
    return [];
  }
}

/**
 * Writes figures onto a model's card. The demonstration model has none.
 *
 * @throws the file system's error
 */
export async function recordFigures(
  directory: string,
  model: InstalledModel,
  figures: MeasuredFigures,
): Promise<void> {
  if (model.embedded) return;
  const { id, version } = model;
  const isSame = (other: MeasuredFigures) =>
    (["date", "data", "language", "mode", "device"] as const).every((key) => other[key] === figures[key]);
  const others = measuredFigures(directory, model).filter((other) => !isSame(other));
  const card: Card = { version, figures: [figures, ...others].slice(0, MAX_FIGURES) };
  await writeDurably(cardPathOf(directory, id), `${JSON.stringify(card, null, 2)}\n`, FILE_MODE);
}

/** Removes a model's card. */
export function deleteCard(directory: string, id: string): void {
  rmSync(cardPathOf(directory, id), { force: true });
}
