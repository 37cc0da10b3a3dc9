import { renderTable } from "../frame/output.ts";
import type { BenchmarkOptions } from "./benchmark-options.ts";
import {
  figuresOf,
  intervalJson,
  intervalOf,
  type ModelScore,
  percentText,
  reliabilityJson,
  rounded,
  type Scored,
  startsJson,
  timesJson,
  totalOf,
  warningCounts,
} from "./benchmark-scores.ts";

/** Renders the models of a comparison as a table, one line each. */
export function comparisonTable(scores: readonly ModelScore[]): string {
  const rows = scores.map(({ model, scored, failed, memoryBytes, device }) => {
    const { words, characters, audioSeconds, elapsedSeconds } = totalOf(scored);
    return [
      model,
      failed.length === 0 ? scored.length : `${scored.length} of ${scored.length + failed.length}`,
      words.total,
      percentText(words, intervalOf(scored, "words")),
      percentText(characters, intervalOf(scored, "characters")),
      (audioSeconds / Math.max(elapsedSeconds, 1e-9)).toFixed(1),
      memoryBytes === 0 ? "–" : Math.round(memoryBytes / 1e6),
      device,
    ];
  });
  return renderTable(
    ["MODEL", "FILES", "WORDS", "WER % (95 %)", "CER % (95 %)", "× REAL TIME", "MEMORY MB", "DEVICE"],
    rows,
  );
}

/** Makes the JSON of a comparison, with the words of each file that differ. */
export function comparisonJson(
  { language, mode, channelMode }: BenchmarkOptions,
  scores: readonly ModelScore[],
) {
  return {
    language,
    mode,
    channel_mode: channelMode,
    models: scores.map(({ model, version, device, memoryBytes, scored, failed }) => ({
      model,
      version,
      device,
      memory_bytes: memoryBytes,
      total: {
        files: scored.length,
        ...figuresOf(totalOf(scored)),
        word_error_interval: intervalJson(intervalOf(scored, "words")),
        character_error_interval: intervalJson(intervalOf(scored, "characters")),
        reliability: reliabilityJson(scored),
        warnings: warningCounts(scored),
        ...startsJson(scored),
      },
      files: scored.map((file) => ({
        file: file.file,
        ...figuresOf(file),
        warnings: file.warnings,
        differences: differencesOf(file),
        ...timesJson(file),
      })),
      failed,
      share_failed: rounded(failed.length / Math.max(1, scored.length + failed.length), 5),
    })),
  };
}

/** The words that differ, with their position in the reference; null where the texts are too long. */
function differencesOf({ compared }: Scored) {
  if (!compared) return null;
  let position = 0;
  return compared.flatMap(({ said, heard }) => {
    const at = position;
    if (said !== undefined) position++;
    return said === heard ? [] : [{ word: at, said: said ?? null, heard: heard ?? null }];
  });
}
