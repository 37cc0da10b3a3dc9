import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readOnnxFile } from "../../lib/onnx-file.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import {
  BAND_NORM_METADATA,
  bandNormModel,
  emptyModel,
  SEGMENTATION_METADATA,
} from "../../testing/onnx-makers.ts";
import {
  checkSpeakerWeights,
  deleteSpeakerWeights,
  findSpeakerWeights,
  installedSpeakerWeights,
  placeSpeakerWeights,
  speakerWeightProblems,
  verifySpeakerWeights,
} from "./speaker-weights.ts";

const REAL_SEGMENTATION = join(
  import.meta.dir,
  "../../../../shared/data/models/pyannote-segmentation-3.0.int8.onnx",
);
const nothing = async () => undefined;

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "shruti-speakers-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function file(name: string, bytes: Uint8Array | string): string {
  const path = join(directory, name);
  writeFileSync(path, bytes);
  return path;
}

describe("installed weights", () => {
  const path = () => join(directory, "speakers", "speaker.onnx");

  test("have a card, and what has changed since is found", async () => {
    const source = file("speaker.onnx", bandNormModel());
    const said = { licence: "Apache-2.0", source: "our own" };
    const card = await placeSpeakerWeights(directory, "speaker", source, nothing, said);
    const sha256 = sha256Hex(bandNormModel());
    expect(card).toEqual({ ...said, sha256, bytes: bandNormModel().length });
    expect(await verifySpeakerWeights(directory, "speaker")).toEqual({ sha256, problems: [] });
    expect(speakerWeightProblems(directory)).toEqual([]);
    truncateSync(path(), card.bytes - 3);
    expect(speakerWeightProblems(directory)).toEqual([
      expect.stringMatching(/kind speaker: .*not a complete/),
    ]);
    const { problems } = await verifySpeakerWeights(directory, "speaker");
    expect(problems).toEqual([expect.stringContaining(sha256), expect.stringMatching(/not a complete/)]);
    expect(await deleteSpeakerWeights(directory, "speaker")).toBe(true);
    expect(readdirSync(join(directory, "speakers"))).toEqual([]);
  });

  test("of an earlier version have no card, and only their form is checked", async () => {
    await placeSpeakerWeights(directory, "speaker", file("speaker.onnx", bandNormModel()), nothing);
    rmSync(join(directory, "speakers", "speaker.json"));
    expect((await verifySpeakerWeights(directory, "speaker")).problems).toEqual([]);
  });

  test("with another SHA-256 than was asked for are refused, and the old ones stay", async () => {
    const source = file("speaker.onnx", bandNormModel());
    const placed = placeSpeakerWeights(directory, "speaker", source, nothing, { sha256: "0".repeat(64) });
    await expect(placed).rejects.toThrow(/SHA-256 of the file is/);
    expect(existsSync(path())).toBe(false);
  });
});

describe("a file of weights", () => {
  test("states its kind", () => {
    const speaker = file("speaker.onnx", bandNormModel());
    expect(Object.fromEntries(readOnnxFile(speaker).metadata)).toEqual(BAND_NORM_METADATA);
    checkSpeakerWeights(speaker, "speaker");
    expect(() => checkSpeakerWeights(speaker, "segmentation")).toThrow(/kind speaker/);
    const segmentation = file("segmentation.onnx", emptyModel(SEGMENTATION_METADATA));
    checkSpeakerWeights(segmentation, "segmentation");
    expect(() => checkSpeakerWeights(segmentation, "speaker")).toThrow(/framework.*kind segmentation/);
  });

  test("with another sample rate, without metadata, truncated, or of another kind is refused", () => {
    const bytes = bandNormModel();
    const cases: [string, Uint8Array | string, RegExp][] = [
      ["8k.onnx", bandNormModel({ ...BAND_NORM_METADATA, sample_rate: "8000" }), /8000 Hz/],
      ["bare.onnx", emptyModel({}), /has no framework, output_dim, sample_rate/],
      ["cut.onnx", bytes.subarray(0, bytes.length - 3), /not a complete/],
      ["empty.onnx", "", /not an? (?:complete )?ONNX/],
      ["text.onnx", "This is not a model at all, it is a text.", /not an? (?:complete )?ONNX/],
      ["zeros.onnx", new Uint8Array(1_000), /not an? (?:complete )?ONNX/],
    ];
    for (const [name, content, reason] of cases) {
      expect(() => checkSpeakerWeights(file(name, content), "speaker"), name).toThrow(reason);
    }
    expect(() => checkSpeakerWeights(join(directory, "missing.onnx"), "speaker")).toThrow(/ENOENT/);
    expect(() => checkSpeakerWeights(directory, "speaker")).toThrow();
  });

  test.skipIf(!existsSync(REAL_SEGMENTATION))(
    "the real segmentation model is recognised (needs ../shared/data)",
    () => {
      checkSpeakerWeights(REAL_SEGMENTATION, "segmentation");
      expect(() => checkSpeakerWeights(REAL_SEGMENTATION, "speaker")).toThrow(/kind segmentation/);
    },
  );
});

describe("installing", () => {
  test("needs both kinds, and the second file is tried together with the first", async () => {
    const tried: string[] = [];
    const tryOut = async (weights: { segmentationPath: string; embeddingPath: string }) => {
      expect(existsSync(weights.segmentationPath) && existsSync(weights.embeddingPath)).toBe(true);
      tried.push("both");
    };
    const models = join(directory, "models");
    const segmentation = file("s.onnx", emptyModel(SEGMENTATION_METADATA));
    await placeSpeakerWeights(models, "segmentation", segmentation, tryOut);
    expect(findSpeakerWeights(models)).toBeUndefined();
    expect(tried).toEqual([]);
    await placeSpeakerWeights(models, "speaker", file("e.onnx", bandNormModel()), tryOut);
    expect(tried).toEqual(["both"]);
    expect(findSpeakerWeights(models)).toEqual({
      segmentationPath: join(models, "speakers/segmentation.onnx"),
      embeddingPath: join(models, "speakers/speaker.onnx"),
    });
    expect(await deleteSpeakerWeights(models, "segmentation")).toBe(true);
    expect(await deleteSpeakerWeights(models, "segmentation")).toBe(false);
    expect(installedSpeakerWeights(models)).toEqual(["speaker"]);
  });

  test("leaves nothing behind when the engine cannot use the files, and the old weights are kept", async () => {
    const models = join(directory, "models");
    await placeSpeakerWeights(
      models,
      "segmentation",
      file("s.onnx", emptyModel(SEGMENTATION_METADATA)),
      nothing,
    );
    const broken = placeSpeakerWeights(models, "speaker", file("e.onnx", bandNormModel()), async () => {
      throw new Error("cannot be used");
    });
    await expect(broken).rejects.toThrow("cannot be used");
    expect(readdirSync(join(models, "speakers"))).toEqual(["segmentation.json", "segmentation.onnx"]);
  });
});
