import type { OpenRecognizer } from "./recognizer.ts";

const openCtc: OpenRecognizer = async (family, nativeFiles) =>
  (await import("./ctc/ctc-recognizer.ts")).openCtcRecognizer(family, nativeFiles);

/**
 * The halves of the families that run in worker processes, one line each. This list is apart from `families/families.ts`,
 * because services read families and must not reach native code.
 */
export const RECOGNIZERS: Readonly<Record<string, OpenRecognizer>> = {
  whisper: async (_family, nativeFiles, code) =>
    (await import("./whisper/whisper-recognizer.ts")).openWhisperRecognizer(nativeFiles, code),
  nemo_ctc: openCtc,
  omnilingual_ctc: openCtc,
  nemo_tdt: async (_family, nativeFiles, code) =>
    (await import("./tdt/tdt-recognizer.ts")).openTdtRecognizer(nativeFiles, code),
  indic_ctc: openCtc,
};

/** Opens a recognizer of this program. Its code is imported when it is needed. */
export const openRecognizer: OpenRecognizer = async (family, nativeFiles, code) => {
  const open = RECOGNIZERS[family];
  if (!open) throw new Error(`there is no recognizer for the family ${family}`);
  return open(family, nativeFiles, code);
};
