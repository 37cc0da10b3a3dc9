import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SpeakerWeights } from "../../domain/model.ts";
import { readOnnxFile } from "../../lib/onnx-file.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import {
  BAND_NORM_METADATA,
  bandNormModel,
  emptyModel,
  SEGMENTATION_METADATA,
} from "../../testing/makers/onnx-makers.ts";
import { CARRIED_NETS } from "./carried-nets.ts";
import {
  checkSpeakerWeights,
  deleteSpeakerWeights,
  hasSpeakerWeights,
  installedSpeakerWeights,
  placeSpeakerWeights,
  speakerWeightPairs,
  speakerWeightProblems,
  verifyCarriedWeights,
  verifySpeakerWeights,
} from "./speaker-weights.ts";

const REAL_SEGMENTATION = join(import.meta.dir, "../../../models/speakers/pyannote-segmentation-3.0.onnx");
const nothing = { tryOut: async () => undefined, carried: undefined };

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

describe("the executable's nets", () => {
  const [segmentation, speaker] = [emptyModel(SEGMENTATION_METADATA), bandNormModel()];
  const carriedNets = (): SpeakerWeights => ({
    segmentationPath: file("carried-1.bin", segmentation),
    embeddingPath: file("carried-2.bin", speaker),
    expected: { segmentation: sha256Hex(segmentation), speaker: sha256Hex(speaker) },
  });

  test("are used where none are installed, and behind installed ones, which take their places one by one", async () => {
    const carried = carriedNets();
    const models = join(directory, "models");
    expect(speakerWeightPairs(models, carried)).toEqual([carried]);
    expect(hasSpeakerWeights(models, carried)).toBe(true);
    const other = bandNormModel({ ...BAND_NORM_METADATA, comment: "another" });
    const tried: SpeakerWeights[] = [];
    const trial = { tryOut: async (pair: SpeakerWeights) => void tried.push(pair), carried };
    await placeSpeakerWeights(models, "speaker", file("other.onnx", other), trial);
    expect(tried).toEqual([
      {
        ...{ segmentationPath: carried.segmentationPath, embeddingPath: expect.stringContaining(models) },
        expected: { segmentation: sha256Hex(segmentation) },
      },
    ]);
    const installed = {
      segmentationPath: carried.segmentationPath,
      embeddingPath: join(models, "speakers/speaker.onnx"),
      expected: { segmentation: sha256Hex(segmentation), speaker: sha256Hex(other) },
    };
    expect(speakerWeightPairs(models, carried)).toEqual([installed, carried]);
    await deleteSpeakerWeights(models, "speaker");
    expect(speakerWeightPairs(models, carried)).toEqual([carried]);
  });

  test("are compared with the hashes of the build", async () => {
    const carried = carriedNets();
    const outcomes = await verifyCarriedWeights(carried);
    expect(outcomes.map(({ kind, problems }) => [kind, problems])).toEqual([
      ["segmentation", []],
      ["speaker", []],
    ]);
    truncateSync(carried.embeddingPath, 100);
    const [first, second] = await verifyCarriedWeights(carried);
    expect(first?.problems).toEqual([]);
    expect(second?.problems).toEqual([expect.stringContaining(`remove ${carried.embeddingPath}`)]);
  });

  test("of this build are what their list says, and are whole nets of their kinds", async () => {
    for (const { kind, weights, sha256 } of Object.values(CARRIED_NETS)) {
      checkSpeakerWeights(weights, kind);
      expect(sha256Hex(readFileSync(weights))).toBe(sha256);
    }
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

  test("the real segmentation model is recognised", () => {
    checkSpeakerWeights(REAL_SEGMENTATION, "segmentation");
    expect(() => checkSpeakerWeights(REAL_SEGMENTATION, "speaker")).toThrow(/kind segmentation/);
  });
});

describe("installing", () => {
  test("needs both kinds where the executable has none, and the second file is tried with the first", async () => {
    const tried: string[] = [];
    const trial = {
      tryOut: async ({ segmentationPath, embeddingPath }: SpeakerWeights) => {
        expect(existsSync(segmentationPath) && existsSync(embeddingPath)).toBe(true);
        tried.push("both");
      },
      carried: undefined,
    };
    const models = join(directory, "models");
    const segmentation = file("s.onnx", emptyModel(SEGMENTATION_METADATA));
    await placeSpeakerWeights(models, "segmentation", segmentation, trial);
    expect(speakerWeightPairs(models, undefined)).toEqual([]);
    expect(hasSpeakerWeights(models, undefined)).toBe(false);
    expect(tried).toEqual([]);
    await placeSpeakerWeights(models, "speaker", file("e.onnx", bandNormModel()), trial);
    expect(tried).toEqual(["both"]);
    expect(hasSpeakerWeights(models, undefined)).toBe(true);
    expect(speakerWeightPairs(models, undefined)).toEqual([
      {
        segmentationPath: join(models, "speakers/segmentation.onnx"),
        embeddingPath: join(models, "speakers/speaker.onnx"),
        expected: {
          segmentation: sha256Hex(emptyModel(SEGMENTATION_METADATA)),
          speaker: sha256Hex(bandNormModel()),
        },
      },
    ]);
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
    const broken = placeSpeakerWeights(models, "speaker", file("e.onnx", bandNormModel()), {
      ...nothing,
      tryOut: async () => {
        throw new Error("cannot be used");
      },
    });
    await expect(broken).rejects.toThrow("cannot be used");
    expect(readdirSync(join(models, "speakers"))).toEqual(["segmentation.json", "segmentation.onnx"]);
  });
});
