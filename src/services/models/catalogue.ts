import { SCHEDULED_LANGUAGES } from "../../domain/published-models.ts";
import type { Mode } from "../../domain/transcription.ts";
import type { PUNCTUATION_KIND } from "./punctuation-model.ts";
import type { SpeakerWeightKind } from "./speaker-weights.ts";

/** A file that can be downloaded. Only what is known for certain is stated. */
export type CatalogueFile = {
  /** The name that it gets. */
  name: string;
  url: string;
  bytes?: number;
  /** Lower-case hex. Left out: not known, so that nothing can be checked. */
  sha256?: string;
};

/** A model that is published elsewhere. */
export type CatalogueEntry = {
  name: string;
  title: string;
  /** Languages for which it was made; undefined: Whisper's, see the model card of the source, or any of a segmentation net. */
  languages?: readonly string[];
  modes?: readonly Mode[];
  licence: string;
  /** The page that states licence and figures. */
  source: string;
  /** Size of all files together, as far as it is published; `isRounded`: the page gives three digits. */
  size: { bytes: number; isRounded: boolean };
  /** The error rate that the authors state. It has not been checked here. */
  published?: string;
  files: readonly CatalogueFile[];
  /** One ggml file, a folder of a model, a net that helps to distinguish speakers, or the folder of a model of punctuation. */
  form: "ggml" | "folder" | SpeakerWeightKind | typeof PUNCTUATION_KIND;
};

/** A fixed commit of the repository of weights, so that a name always means the same file. */
const GGML_AT =
  "https://huggingface.co/ggerganov/whisper.cpp/resolve/5359861c739e955e79d9a303bcbc70fb988958b1";
const GGML_SOURCE = "https://huggingface.co/ggerganov/whisper.cpp";

const ggml = (bytes: number, sha256: string) => ({ bytes, sha256 });

/** Sizes and SHA-256 from that repository. The names are those of whisper.cpp's own download script. */
const GGML_FILES: Readonly<Record<string, { bytes: number; sha256: string }>> = {
  tiny: ggml(77_691_713, "be07e048e1e599ad46341c8d2a135645097a538221678b7acdd1b1919c6e1b21"),
  "tiny-q5_1": ggml(32_152_673, "818710568da3ca15689e31a743197b520007872ff9576237bda97bd1b469c3d7"),
  "tiny-q8_0": ggml(43_537_433, "c2085835d3f50733e2ff6e4b41ae8a2b8d8110461e18821b09a15c40c42d1cca"),
  "tiny.en": ggml(77_704_715, "921e4cf8686fdd993dcd081a5da5b6c365bfde1162e72b08d75ac75289920b1f"),
  base: ggml(147_951_465, "60ed5bc3dd14eea856493d334349b405782ddcaf0028d4b5df4088345fba2efe"),
  "base-q5_1": ggml(59_707_625, "422f1ae452ade6f30a004d7e5c6a43195e4433bc370bf23fac9cc591f01a8898"),
  "base-q8_0": ggml(81_768_585, "c577b9a86e7e048a0b7eada054f4dd79a56bbfa911fbdacf900ac5b567cbb7d9"),
  "base.en": ggml(147_964_211, "a03779c86df3323075f5e796cb2ce5029f00ec8869eee3fdfb897afe36c6d002"),
  small: ggml(487_601_967, "1be3a9b2063867b937e64e2ec7483364a79917e157fa98c5d94b5c1fffea987b"),
  "small-q5_1": ggml(190_085_487, "ae85e4a935d7a567bd102fe55afc16bb595bdb618e11b2fc7591bc08120411bb"),
  "small-q8_0": ggml(264_464_607, "49c8fb02b65e6049d5fa6c04f81f53b867b5ec9540406812c643f177317f779f"),
  "small.en": ggml(487_614_201, "c6138d6d58ecc8322097e0f987c32f1be8bb0a18532a3f88f734d1bbf9c41e5d"),
  medium: ggml(1_533_763_059, "6c14d5adee5f86394037b4e4e8b59f1673b6cee10e3cf0b11bbdbee79c156208"),
  "medium-q5_0": ggml(539_212_467, "19fea4b380c3a618ec4723c3eef2eb785ffba0d0538cf43f8f235e7b3b34220f"),
  "medium-q8_0": ggml(823_369_779, "42a1ffcbe4167d224232443396968db4d02d4e8e87e213d3ee2e03095dea6502"),
  "large-v1": ggml(3_094_623_691, "7d99f41a10525d0206bddadd86760181fa920438b6b33237e3118ff6c83bb53d"),
  "large-v2": ggml(3_094_623_691, "9a423fe4d40c82774b6af34115b8b935f34152246eb19e80e376071d3f999487"),
  "large-v2-q5_0": ggml(1_080_732_091, "3a214837221e4530dbc1fe8d734f302af393eb30bd0ed046042ebf4baf70f6f2"),
  "large-v2-q8_0": ggml(1_656_129_691, "fef54e6d898246a65c8285bfa83bd1807e27fadf54d5d4e81754c47634737e8c"),
  "large-v3": ggml(3_095_033_483, "64d182b440b98d5203c4f9bd541544d84c605196c4f7b845dfa11fb23594d1e2"),
  "large-v3-q5_0": ggml(1_081_140_203, "d75795ecff3f83b5faa89d1900604ad8c780abd5739fae406de19f23ecd98ad1"),
  "large-v3-turbo": ggml(1_624_555_275, "1fc70f774d38eb169993ac391eea357ef47c88757ef72ee5943879b7e8e2bc69"),
  "large-v3-turbo-q5_0": ggml(
    574_041_195,
    "394221709cd5ad1f40c46e6031ca61bce88931e6e088c188294c6d5a55ffa7e2",
  ),
  "large-v3-turbo-q8_0": ggml(
    874_188_075,
    "317eb69c11673c9de1e1f0d459b253999804ec71ac4c23c17ecf5fbe24e259a1",
  ),
};

function ggmlEntry(name: string, { bytes, sha256 }: { bytes: number; sha256: string }): CatalogueEntry {
  const file = `ggml-${name}.bin`;
  return {
    name,
    title: `OpenAI's Whisper ${name}`,
    ...(name.endsWith(".en") ? { languages: ["en"] } : {}),
    licence: "MIT",
    source: GGML_SOURCE,
    size: { bytes, isRounded: false },
    files: [{ name: file, url: `${GGML_AT}/${file}`, bytes, sha256 }],
    form: "ggml",
  };
}

/** Files beside the weights. Their SHA-256 are not published. */
const FOLDER_FILES = [
  "config.json",
  "vocab.json",
  "added_tokens.json",
  "preprocessor_config.json",
  "README.md",
];

type FineTune = {
  repository: string;
  /** A fixed commit, where one is known. */
  revision?: string;
  title: string;
  languages: readonly string[];
  licence: string;
  bytes: number;
  sha256: string;
  published?: string;
};

/**
 * Fine-tunes of the Speech Lab of IIT Madras. Size and SHA-256 are those that the pages of `pytorch_model.bin` show,
 * licence and error rates those of the model cards.
 */
const FINE_TUNES: readonly FineTune[] = [
  {
    repository: "vasista22/whisper-hindi-small",
    revision: "fb4a24afc20c42906deed31c3689e4be31da41fe",
    title: "Whisper small for Hindi",
    languages: ["hi"],
    licence: "Apache-2.0",
    bytes: 967e6,
    sha256: "a19127581a96928c53cc8322249610df2cd59c59e6d06a707d9b1a1b9b25e2d9",
    published: "WER 9.02 % on FLEURS hi_in test, 14.12 % on Common Voice 11 hi test",
  },
  {
    repository: "vasista22/whisper-hindi-medium",
    title: "Whisper medium for Hindi",
    languages: ["hi"],
    licence: "Apache-2.0",
    bytes: 3.06e9,
    sha256: "c01059f10127b727269ab42a183e913409c4bcbc6b9eab6f76d2cac2bdbc6e35",
    published: "WER 6.82 % on FLEURS hi_in test, 11.38 % on Common Voice 11 hi test",
  },
  {
    repository: "vasista22/whisper-hindi-large-v2",
    revision: "a920475becac31179173d6eafc8936983d04681a",
    title: "Whisper large-v2 for Hindi",
    languages: ["hi"],
    licence: "Apache-2.0",
    bytes: 6.17e9,
    sha256: "4202d803d6855f2d147a2dd657b968a9680633d879cf41a13976d98159d21883",
    published: "WER 6.8 % on FLEURS hi_in test, 10.98 % on Common Voice 11 hi test",
  },
  {
    repository: "vasista22/whisper-tamil-medium",
    revision: "72dae2e4989d0a8cbd3b5af5505e52b4743b69cd",
    title: "Whisper medium for Tamil",
    languages: ["ta"],
    licence: "see its model card",
    bytes: 3.06e9,
    sha256: "e54e23c21b0d61d6256fe8bc6f772f103dbc883743733d5f181894a560f81e0d",
  },
  {
    repository: "vasista22/whisper-telugu-medium",
    revision: "009a02ee380c492b49f25c85115c2ef39ccb6303",
    title: "Whisper medium for Telugu",
    languages: ["te"],
    licence: "Apache-2.0",
    bytes: 3.06e9,
    sha256: "eb035fbfe94c55ee7fe35b57aa0822f7d014fd9766fc4aac225881a0e7fbd86b",
    published: "WER 9.47 % on FLEURS te_in test",
  },
  {
    repository: "vasista22/whisper-kannada-medium",
    title: "Whisper medium for Kannada",
    languages: ["kn"],
    licence: "see its model card",
    bytes: 3.06e9,
    sha256: "32d63207e8c743d2da2900442f8bf94fd8c8a85a3119075240c9586f909c266e",
  },
];

function fineTuneEntry(tune: FineTune): CatalogueEntry {
  const { repository, revision = "main", title, languages, licence, bytes, sha256, published } = tune;
  const source = `https://huggingface.co/${repository}`;
  const urlOf = (name: string) => `${source}/resolve/${revision}/${name}`;
  const weights = "pytorch_model.bin";
  return {
    name: repository.slice(repository.indexOf("/") + 1),
    title,
    languages,
    licence,
    source,
    size: { bytes, isRounded: true },
    ...(published === undefined ? {} : { published }),
    files: [
      ...FOLDER_FILES.map((name) => ({ name, url: urlOf(name) })),
      { name: weights, url: urlOf(weights), sha256 },
    ],
    form: "folder",
  };
}

type SpeakerNet = {
  name: string;
  title: string;
  kind: SpeakerWeightKind;
  languages?: readonly string[];
  licence: string;
  repository: string;
  revision: string;
  file: string;
  bytes: number;
  sha256: string;
};

/** Fixed commits of repositories with exports for sherpa-onnx. */
const SEGMENTATION_NETS = {
  kind: "segmentation",
  repository: "csukuangfj/sherpa-onnx-pyannote-segmentation-3-0",
  revision: "9403a6902bb58e3d5ae8c7e77c3422de279db2e0",
} as const;
const SPEAKER_NETS = {
  kind: "speaker",
  repository: "csukuangfj/speaker-embedding-models",
  revision: "0743f301363dec56491a490f6d6cbc9d67f9a3bf",
} as const;

/**
 * Nets that distinguish speakers. The first two have the weights that the executable carries, in another export. Sizes and
 * SHA-256 are those of the files in these commits, as other projects pin them.
 */
const NETS: readonly SpeakerNet[] = [
  {
    ...SEGMENTATION_NETS,
    name: "pyannote-segmentation-3.0",
    title: "pyannote segmentation 3.0: who speaks when within 10 s",
    licence: "MIT",
    file: "model.onnx",
    bytes: 5_992_913,
    sha256: "220ad67ca923bef2fa91f2390c786097bf305bceb5e261d4af67b38e938e1079",
  },
  {
    ...SPEAKER_NETS,
    name: "campplus-zh-en",
    title: "3D-Speaker CAM++, voices of Chinese and English speakers",
    languages: ["zh", "en"],
    licence: "Apache-2.0",
    file: "3dspeaker_speech_campplus_sv_zh_en_16k-common_advanced.onnx",
    bytes: 28_281_164,
    sha256: "aa3cfc16963a10586a9393f5035d6d6b57e98d358b347f80c2a30bf4f00ceba2",
  },
  {
    ...SPEAKER_NETS,
    name: "campplus-en-voxceleb",
    title: "3D-Speaker CAM++, voices of English speakers (VoxCeleb)",
    languages: ["en"],
    licence: "Apache-2.0",
    file: "3dspeaker_speech_campplus_sv_en_voxceleb_16k.onnx",
    bytes: 29_596_978,
    sha256: "357a834f702b80161e5b981182c038e18553c1f2ca752ed6cec2052365d4129b",
  },
  {
    ...SPEAKER_NETS,
    name: "eres2net-base-zh",
    title: "3D-Speaker ERes2Net base, voices of Chinese speakers",
    languages: ["zh"],
    licence: "Apache-2.0",
    file: "3dspeaker_speech_eres2net_base_sv_zh-cn_3dspeaker_16k.onnx",
    bytes: 39_593_761,
    sha256: "1a331345f04805badbb495c775a6ddffcdd1a732567d5ec8b3d5749e3c7a5e4b",
  },
];

function netEntry({ name, title, kind, languages, licence, ...published }: SpeakerNet): CatalogueEntry {
  const { repository, revision, file, bytes, sha256 } = published;
  const source = `https://huggingface.co/${repository}`;
  return {
    ...{ name, title, licence, source, form: kind },
    ...(languages ? { languages } : {}),
    size: { bytes, isRounded: false },
    files: [{ name: file, url: `${source}/resolve/${revision}/${file}`, bytes, sha256 }],
  };
}

type IndicFolder = {
  name: string;
  title: string;
  repository: string;
  bytes: number;
  files: readonly string[];
};

/**
 * IndicConformer-600M in forms that need no form of AI4Bharat's: its own repository is gated, and `models add` takes a
 * clone of it. Neither repository publishes SHA-256 that could be read here.
 */
const INDIC_FOLDERS: readonly IndicFolder[] = [
  {
    name: "indicconformer-600m",
    title:
      "IndicConformer-600M of AI4Bharat, repackaged for Vernacula with unchanged weights (as its card says)",
    repository: "christopherthompson81/indicconformer-600m-onnx",
    bytes: 2.5e9,
    files: [
      "vocab.txt",
      "language_spans.json",
      "ctc_decoder-model.onnx",
      "encoder-model.onnx.data",
      "encoder-model.onnx",
    ],
  },
  {
    name: "indicconformer-600m-int8",
    title: "IndicConformer-600M of AI4Bharat with matrices of 8 bits, made for VaaniLipi",
    repository: "Rstc989/Vaanilipi",
    bytes: 9.05e8,
    files: ["vocab.json", "language_masks.json", "ctc_decoder.onnx", "encoder.onnx"],
  },
];

function indicEntry({ name, title, repository, bytes, files }: IndicFolder): CatalogueEntry {
  const source = `https://huggingface.co/${repository}`;
  return {
    ...{ name, title, source, languages: SCHEDULED_LANGUAGES, licence: "MIT", form: "folder" },
    size: { bytes, isRounded: true },
    files: files.map((file) => ({ name: file, url: `${source}/resolve/main/${file}` })),
  };
}

const PUNCTUATION_SOURCE = "https://huggingface.co/1-800-BAD-CODE/punct_cap_seg_47_language";
const PUNCTUATION_AT = `${PUNCTUATION_SOURCE}/resolve/1b9d51fc7989ebc61e844d407d9dadd08ff4ba28`;

/**
 * A model of punctuation. Languages, licence and size are those of its card and its `config.yaml`, SHA-256 those that another
 * project pins. The languages are those of India among 47.
 */
const PUNCTUATION: CatalogueEntry = {
  name: "punct-cap-seg-47-language",
  title: "punctuation and capitals for texts without any",
  languages: ["bn", "en", "gu", "hi", "kn", "ml", "mr", "or", "pa", "ta", "te"],
  licence: "Apache-2.0",
  source: PUNCTUATION_SOURCE,
  size: { bytes: 2.34e8, isRounded: true },
  files: [
    {
      name: "config.yaml",
      url: `${PUNCTUATION_AT}/config.yaml`,
      sha256: "30eb8e05fcea3865828ab73f41fbba21dd7faf127a61950a706af9156f5b84f2",
    },
    {
      name: "spe_unigram_64k_lowercase_47lang.model",
      url: `${PUNCTUATION_AT}/spe_unigram_64k_lowercase_47lang.model`,
      sha256: "1bc15b6e5fd80dfac9999582ce3efcad2ac1f7cf4e0e9769b329f5de9ca5af47",
    },
    {
      name: "punct_cap_seg_47lang.onnx",
      url: `${PUNCTUATION_AT}/punct_cap_seg_47lang.onnx`,
      sha256: "640d91c06b7cc5b3e065c12a7097188378aad3bc11568ff1d72c4c0a2acb0df4",
    },
  ],
  form: "punctuation",
};

/** The models that `shruti models fetch` knows by name. */
export const CATALOGUE: readonly CatalogueEntry[] = [
  ...Object.entries(GGML_FILES).map(([name, file]) => ggmlEntry(name, file)),
  ...INDIC_FOLDERS.map(indicEntry),
  ...FINE_TUNES.map(fineTuneEntry),
  ...NETS.map(netEntry),
  PUNCTUATION,
];

/** Returns the files of an entry whose content cannot be checked. */
export function unverifiedFiles({ files }: CatalogueEntry): CatalogueFile[] {
  return files.filter(({ sha256 }) => sha256 === undefined);
}
