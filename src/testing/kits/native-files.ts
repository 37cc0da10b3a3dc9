import { dirname } from "node:path";
import { NATIVE_FILES } from "#native-parts";
import type { NativeFiles } from "../../native/native-files.ts";

/**
 * The folder of native parts that tests use: this machine's, or those of a release under
 * `bun test --conditions=shruti-linux-x64`.
 */
export const NATIVE_DIR = dirname(NATIVE_FILES[0]?.packed ?? "");

/** Paths for hosts and pools whose worker processes are scripted. These files are never opened. */
export const NO_NATIVE_FILES: NativeFiles = {
  dir: "",
  decoder: "",
  smartWhisper: "",
  onnx: "",
  onnxruntime: "",
  silero: "",
  sileroWeights: "",
};
