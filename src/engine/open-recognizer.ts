import type { OpenRecognizer } from "./recognizer.ts";

/** Opens a recognizer of this program. Its code is imported when it is needed. */
export const openRecognizer: OpenRecognizer = async (family, nativeFiles, code) => {
  switch (family) {
    case "whisper": {
      const { openWhisperRecognizer } = await import("./whisper/whisper-recognizer.ts");
      return openWhisperRecognizer(nativeFiles, code);
    }
    case "nemo_ctc":
    case "omnilingual_ctc": {
      const { openCtcRecognizer } = await import("./ctc/ctc-recognizer.ts");
      return openCtcRecognizer(family, nativeFiles);
    }
  }
};
