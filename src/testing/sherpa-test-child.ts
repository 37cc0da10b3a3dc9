import { readFileSync } from "node:fs";
import { extractNativeFiles } from "../engine/native-files.ts";
import { loadSherpa } from "../engine/sherpa.ts";

/** Loads sherpa-onnx and prints the paths of all files that this process has mapped then, as JSON. */
loadSherpa(await extractNativeFiles(""));
const paths = readFileSync("/proc/self/maps", "utf8")
  .split("\n")
  .map((line) => line.slice(line.indexOf("/")));
console.log(JSON.stringify([...new Set(paths)]));
