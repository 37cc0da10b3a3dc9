import type { NativeFiles } from "../engine/native-files.ts";

/** Paths for hosts and pools whose worker processes are scripted. These files are never opened. */
export const NO_NATIVE_FILES: NativeFiles = {
  dir: "",
  decoder: "",
  smartWhisper: "",
  sherpa: "",
  ctc: "",
  onnxruntime: "",
  silero: "",
  sileroWeights: "",
};
