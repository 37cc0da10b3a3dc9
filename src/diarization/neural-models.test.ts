import { describe, expect, test } from "bun:test";
import { BAND_NORM_METADATA, SEGMENTATION_METADATA } from "../testing/makers/onnx-makers.ts";
import { embeddingInfo, segmentationInfo } from "./neural-models.ts";

const entries = (metadata: Readonly<Record<string, string>>) => new Map(Object.entries(metadata));

describe("metadata of segmentation models", () => {
  test("classes are the sets of speakers who talk at once", () => {
    expect(segmentationInfo(entries(SEGMENTATION_METADATA))).toEqual({
      speakers: 3,
      classes: [0, 1, 2, 4, 3, 5, 6],
      windowSamples: 160_000,
      frameSamples: 270,
      fieldSamples: 991,
    });
  });

  test.each([
    [{ num_classes: "8" }, /num_classes 8, and its speakers make 7/],
    [{ num_speakers: "100" }, /num_speakers "100", and it has to be a number from 1 to 8/],
    [{ powerset_max_classes: "3" }, /powerset_max_classes "3"/],
    [{ window_size: "-1" }, /window_size "-1"/],
    [{ window_size: "" }, /window_size ""/],
    [{ receptive_field_shift: "0" }, /receptive_field_shift "0"/],
    [{ sample_rate: "8000" }, /sample_rate "8000", and it has to be 16000/],
  ])("%j is refused with its name", (wrong, reason) => {
    expect(() => segmentationInfo(entries({ ...SEGMENTATION_METADATA, ...wrong }))).toThrow(reason);
  });
});

const NEMO = {
  framework: "nemo",
  output_dim: "192",
  sample_rate: "16000",
  feat_dim: "80",
  window_size_ms: "20",
  window_stride_ms: "10",
  window_type: "hann",
  feature_normalize_type: "per_feature",
};

describe("metadata of speaker models", () => {
  test("models of WeSpeaker and 3D-Speaker hear Kaldi's features, those of NeMo librosa's", () => {
    const kaldi = { nemo: 0, scaled: 0, bins: 80, window: 400, shift: 160, shape: 0, normalization: 0 };
    expect(embeddingInfo(entries(BAND_NORM_METADATA))).toEqual({
      sound: { ...kaldi, nemo: 0, scaled: 0 },
      output: 0,
      numbers: 80,
    });
    const loud = { ...BAND_NORM_METADATA, normalize_samples: "0", feature_normalize_type: "global-mean" };
    expect(embeddingInfo(entries({ ...loud, framework: "3d-speaker" })).sound).toEqual({
      ...kaldi,
      nemo: 0,
      scaled: 1,
      normalization: 1,
    });
    expect(embeddingInfo(entries(NEMO))).toEqual({
      sound: { nemo: 1, scaled: 0, bins: 80, window: 320, shift: 160, shape: 1, normalization: 2 },
      output: 1,
      numbers: 192,
    });
  });

  test.each([
    [{ framework: "other" }, /framework "other"/],
    [{ framework: "wespeaker" }, /normalize_samples ""/],
    [{ feat_dim: "1000" }, /feat_dim "1000"/],
    [{ window_size_ms: "40" }, /frames are longer or shorter/],
    [{ window_type: "kaiser" }, /window_type "kaiser"/],
    [{ feature_normalize_type: "all_features" }, /feature_normalize_type "all_features"/],
  ])("%j is refused with its name", (wrong, reason) => {
    expect(() => embeddingInfo(entries({ ...NEMO, ...wrong }))).toThrow(reason);
  });
});
