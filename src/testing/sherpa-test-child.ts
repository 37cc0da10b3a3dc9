import { readFileSync } from "node:fs";
import { loadSherpa } from "../engine/diarization/sherpa.ts";
import { extractNativeFiles } from "../engine/native-files.ts";

/** Loads sherpa-onnx and prints the paths of all files that this process has mapped then, as JSON. */
loadSherpa(await extractNativeFiles(""));
const paths = readFileSync("/proc/self/maps", "utf8")
  .split("\n")
  .map((line) => line.slice(line.indexOf("/")));
console.log(JSON.stringify([...new Set(paths)]));
