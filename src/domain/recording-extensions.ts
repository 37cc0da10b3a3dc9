import { RAW_EXTENSIONS } from "./raw-formats.ts";

/**
 * The extensions of recordings, by the name that the decoder has for their format (`src/native/build/ffmpeg.ts`). A format
 * without any has no file of its own, or cannot be recognized by its content (domain/raw-formats.ts).
 */
export const RECORDING_EXTENSIONS: Readonly<Record<string, readonly string[]>> = {
  wav: ["wav", "wave", "bwf", "rf64", "bw64"],
  w64: ["w64"],
  aiff: ["aif", "aiff", "aifc"],
  au: ["au", "snd"],
  caf: ["caf"],
  voc: ["voc"],
  sox: ["sox"],
  nistsphere: ["sph", "nist"],
  ircam: ["sf", "ircam"],
  xwma: ["xwma"],
  mp3: ["mp3", "mp2", "mp1", "mpa", "mpga"],
  aac: ["aac", "adts"],
  loas: ["loas", "latm"],
  ac3: ["ac3"],
  eac3: ["eac3", "ec3"],
  dts: ["dts"],
  dtshd: ["dtshd"],
  mlp: ["mlp"],
  truehd: ["thd"],
  flac: ["flac"],
  ape: ["ape"],
  tta: ["tta"],
  wv: ["wv"],
  tak: ["tak"],
  mpc: ["mpc"],
  mpc8: ["mpc"],
  shorten: ["shn"],
  ogg: ["ogg", "oga", "ogv", "ogx", "opus", "spx"],
  matroska: ["mkv", "mka", "webm", "weba"],
  mov: [
    ...["mov", "qt", "qta", "mp4", "m4a", "m4b", "m4r", "m4v", "f4a", "f4v"],
    ...["3gp", "3gpp", "3g2", "3gp2", "3gpp2", "3ga"],
  ],
  asf: ["asf", "wma", "wmv"],
  avi: ["avi", "divx"],
  flv: ["flv"],
  mpegts: ["ts", "mts", "m2ts", "m2t", "trp"],
  mpegps: ["mpg", "mpeg", "vob", "evo"],
  rm: ["ra", "rm", "rmvb"],
  oma: ["oma", "aa3"],
  amr: ["amr", "awb"],
  qcp: ["qcp"],
  dss: ["dss"],
  gsm: ["gsm"],
  ilbc: ["lbc"],
};

const ALL: ReadonlySet<string> = new Set([...Object.values(RECORDING_EXTENSIONS).flat(), ...RAW_EXTENSIONS]);

/** Reports whether a file is a recording by its extension, which has no dot, in any case. */
export function isRecordingExtension(extension: string): boolean {
  return ALL.has(extension.toLowerCase());
}
