import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { importModel } from "../../model-import/import-worker.ts";
import type { WeightType } from "../../model-import/quantise.ts";
import { makeNemo, makeNemoConfig, makeNemoTensors, NEMO_MODELS, type NemoModel } from "./nemo-maker.ts";

/** Writes the engine's own file of a made model, by way of a `.nemo` file. */
export async function writeTdtModel(
  of: keyof typeof NEMO_MODELS | NemoModel,
  path: string,
  type: WeightType = "f16",
): Promise<void> {
  const model = typeof of === "string" ? NEMO_MODELS[of] : of;
  const scratch = mkdtempSync(join(dirname(path), "import-"));
  const source = join(scratch, "model.nemo");
  writeFileSync(source, makeNemo(makeNemoConfig(model), makeNemoTensors(model)));
  await importModel({ kind: "nemo", source, type, output: path, scratch, reserveBytes: 0 }, () => {});
  rmSync(scratch, { recursive: true });
}
