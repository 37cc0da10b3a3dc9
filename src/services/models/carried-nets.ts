import campplus from "../../../models/speakers/campplus-zh-en.onnx" with { type: "file" };
import pyannote from "../../../models/speakers/pyannote-segmentation-3.0.onnx" with { type: "file" };
import type { SpeakerWeightKind } from "./speaker-weights.ts";

/** A net inside the executable that helps to distinguish speakers; see scripts/models/speakers/README.md. */
export type CarriedNet = {
  kind: SpeakerWeightKind;
  /** Name of the file in `models/speakers`. */
  fileName: string;
  /** The file as it is read: inside the executable, or in the project. */
  weights: string;
  /** Lower-case hex. */
  sha256: string;
  /** For people. */
  name: string;
  version: string;
  /** Identifier of SPDX. */
  licence: string;
  /** Its text, a file in `scripts/models/speakers`. */
  licenceFile: string;
  /** Where its authors publish it. */
  source: string;
};

/** The nets inside the executable, one of each kind. */
export const CARRIED_NETS: Readonly<Record<SpeakerWeightKind, CarriedNet>> = {
  segmentation: {
    kind: "segmentation",
    fileName: "pyannote-segmentation-3.0.onnx",
    weights: pyannote,
    sha256: "d3cd8c06fdf9f56b69bed5ef8d319f8c73c5194309a00ee56d43ac2e2c902cac",
    name: "pyannote segmentation",
    version: "3.0",
    licence: "MIT",
    licenceFile: "LICENSE-pyannote-segmentation.txt",
    source: "https://huggingface.co/pyannote/segmentation-3.0",
  },
  speaker: {
    kind: "speaker",
    fileName: "campplus-zh-en.onnx",
    weights: campplus,
    sha256: "7094a27d4aae79b6735f70a4aecc7b2fff00998d1e4811527a221fc79c590f80",
    name: "3D-Speaker CAM++, Chinese and English, common advanced",
    version: "1.0.0",
    licence: "Apache-2.0",
    licenceFile: "LICENSE-campplus.txt",
    source: "https://modelscope.cn/models/iic/speech_campplus_sv_zh_en_16k-common_advanced",
  },
};
