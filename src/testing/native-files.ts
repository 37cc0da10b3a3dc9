import type { NativeFiles } from "../engine/native-files.ts";

/** Paths for hosts and pools whose workers are scripted: nobody opens them. */
export const NO_NATIVE_FILES: NativeFiles = {
  dir: "",
  decoder: "",
  smartWhisper: "",
  sherpa: "",
  silero: "",
  sileroWeights: "",
};
