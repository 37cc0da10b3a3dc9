import { readFileSync } from "node:fs";
import type { NativeFiles } from "../../native/native-files.ts";
import { loadOnnx } from "../../native/onnx/onnx-addon.ts";

/**
 * Loads the ONNX runtime and prints the paths of all files that this process has mapped then, as JSON. The argument is
 * the native files as JSON: they may be those of a release.
 */
loadOnnx(JSON.parse(process.argv[2] ?? "") as NativeFiles);
const paths = readFileSync("/proc/self/maps", "utf8")
  .split("\n")
  .map((line) => line.slice(line.indexOf("/")));
console.log(JSON.stringify([...new Set(paths)]));
