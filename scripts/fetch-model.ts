import { createHash, type Hash } from "node:crypto";
import { type FileHandle, mkdir, open, rename, rm } from "node:fs/promises";
import { join } from "node:path";

/** A file of Whisper weights as the authors of whisper.cpp publish it. */
export type PublishedModel = { bytes: number; sha256: string };

/** A fixed commit of the repository of weights, so that a name always means the same file. */
const PUBLISHED_AT =
  "https://huggingface.co/ggerganov/whisper.cpp/resolve/5359861c739e955e79d9a303bcbc70fb988958b1";

const published = (bytes: number, sha256: string): PublishedModel => ({ bytes, sha256 });

/** Sizes and hashes from the repository. The names are those of whisper.cpp's own download script. */
export const PUBLISHED_MODELS: Readonly<Record<string, PublishedModel>> = {
  tiny: published(77_691_713, "be07e048e1e599ad46341c8d2a135645097a538221678b7acdd1b1919c6e1b21"),
  "tiny-q5_1": published(32_152_673, "818710568da3ca15689e31a743197b520007872ff9576237bda97bd1b469c3d7"),
  "tiny-q8_0": published(43_537_433, "c2085835d3f50733e2ff6e4b41ae8a2b8d8110461e18821b09a15c40c42d1cca"),
  "tiny.en": published(77_704_715, "921e4cf8686fdd993dcd081a5da5b6c365bfde1162e72b08d75ac75289920b1f"),
  base: published(147_951_465, "60ed5bc3dd14eea856493d334349b405782ddcaf0028d4b5df4088345fba2efe"),
  "base-q5_1": published(59_707_625, "422f1ae452ade6f30a004d7e5c6a43195e4433bc370bf23fac9cc591f01a8898"),
  "base-q8_0": published(81_768_585, "c577b9a86e7e048a0b7eada054f4dd79a56bbfa911fbdacf900ac5b567cbb7d9"),
  "base.en": published(147_964_211, "a03779c86df3323075f5e796cb2ce5029f00ec8869eee3fdfb897afe36c6d002"),
  small: published(487_601_967, "1be3a9b2063867b937e64e2ec7483364a79917e157fa98c5d94b5c1fffea987b"),
  "small-q5_1": published(190_085_487, "ae85e4a935d7a567bd102fe55afc16bb595bdb618e11b2fc7591bc08120411bb"),
  "small-q8_0": published(264_464_607, "49c8fb02b65e6049d5fa6c04f81f53b867b5ec9540406812c643f177317f779f"),
  "small.en": published(487_614_201, "c6138d6d58ecc8322097e0f987c32f1be8bb0a18532a3f88f734d1bbf9c41e5d"),
  medium: published(1_533_763_059, "6c14d5adee5f86394037b4e4e8b59f1673b6cee10e3cf0b11bbdbee79c156208"),
  "medium-q5_0": published(539_212_467, "19fea4b380c3a618ec4723c3eef2eb785ffba0d0538cf43f8f235e7b3b34220f"),
  "medium-q8_0": published(823_369_779, "42a1ffcbe4167d224232443396968db4d02d4e8e87e213d3ee2e03095dea6502"),
  "large-v1": published(3_094_623_691, "7d99f41a10525d0206bddadd86760181fa920438b6b33237e3118ff6c83bb53d"),
  "large-v2": published(3_094_623_691, "9a423fe4d40c82774b6af34115b8b935f34152246eb19e80e376071d3f999487"),
  "large-v2-q5_0": published(
    1_080_732_091,
    "3a214837221e4530dbc1fe8d734f302af393eb30bd0ed046042ebf4baf70f6f2",
  ),
  "large-v2-q8_0": published(
    1_656_129_691,
    "fef54e6d898246a65c8285bfa83bd1807e27fadf54d5d4e81754c47634737e8c",
  ),
  "large-v3": published(3_095_033_483, "64d182b440b98d5203c4f9bd541544d84c605196c4f7b845dfa11fb23594d1e2"),
  "large-v3-q5_0": published(
    1_081_140_203,
    "d75795ecff3f83b5faa89d1900604ad8c780abd5739fae406de19f23ecd98ad1",
  ),
  "large-v3-turbo": published(
    1_624_555_275,
    "1fc70f774d38eb169993ac391eea357ef47c88757ef72ee5943879b7e8e2bc69",
  ),
  "large-v3-turbo-q5_0": published(
    574_041_195,
    "394221709cd5ad1f40c46e6031ca61bce88931e6e088c188294c6d5a55ffa7e2",
  ),
  "large-v3-turbo-q8_0": published(
    874_188_075,
    "317eb69c11673c9de1e1f0d459b253999804ec71ac4c23c17ecf5fbe24e259a1",
  ),
};

export type FetchOptions = {
  /** Address of the file. */
  url: string;
  model: PublishedModel;
  /** Path of the file. Until the file is complete and verified, its name ends in `.part`. */
  path: string;
  onProgress?: (bytes: number) => void;
  /** A connection without data for this time is closed, and the download is resumed. */
  stallMs?: number;
  /** Pause before the next connection, multiplied by the number of failures. */
  retryMs?: number;
};

const MAX_FRUITLESS_TRIES = 5;

/** A response of the server that another request would not change. */
class FinalError extends Error {}

/**
 * Downloads a file, continues where an earlier call or connection stopped, and checks its size and SHA-256.
 *
 * @throws Error after five connections in a row without data, or when the received bytes are not the file; they are
 *   removed then
 */
export async function fetchModel(options: FetchOptions): Promise<void> {
  const { model, path } = options;
  const part = `${path}.part`;
  const file = await open(part, "a+");
  try {
    const hash = createHash("sha256");
    let bytes = await hashExisting(file, hash);
    for (let fruitless = 0; bytes < model.bytes; ) {
      const before = bytes;
      try {
        bytes = await fetchRest(options, file, hash, bytes);
        break;
      } catch (error) {
        bytes = (await file.stat()).size;
        fruitless = bytes > before ? 0 : fruitless + 1;
        if (error instanceof FinalError || fruitless >= MAX_FRUITLESS_TRIES) throw error;
        await Bun.sleep((options.retryMs ?? 2_000) * Math.max(1, fruitless));
      }
    }
    const sha256 = hash.digest("hex");
    if (bytes !== model.bytes || sha256 !== model.sha256) {
      await rm(part);
      throw new Error(`the downloaded bytes are not the file: ${bytes} bytes, SHA-256 ${sha256}`);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(part, path);
}

async function hashExisting(file: FileHandle, hash: Hash): Promise<number> {
  const buffer = new Uint8Array(1024 * 1024);
  let bytes = 0;
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, bytes);
    if (bytesRead === 0) return bytes;
    hash.update(buffer.subarray(0, bytesRead));
    bytes += bytesRead;
  }
}

/** Makes one connection. Received bytes are in the file and in the hash even when the connection breaks. */
async function fetchRest(options: FetchOptions, file: FileHandle, hash: Hash, from: number): Promise<number> {
  const { url, model, stallMs = 60_000 } = options;
  const stalled = new AbortController();
  const watch = () => setTimeout(() => stalled.abort(new Error("the connection stalled")), stallMs);
  let timer = watch();
  try {
    const response = await fetch(url, {
      signal: stalled.signal,
      headers: from > 0 ? { range: `bytes=${from}-` } : {},
    });
    requireRest(response, from, model.bytes);
    let bytes = from;
    for await (const slice of response.body ?? []) {
      clearTimeout(timer);
      timer = watch();
      if (bytes + slice.length > model.bytes) throw new FinalError("the server sends more than the file has");
      await file.appendFile(slice);
      hash.update(slice);
      bytes += slice.length;
      options.onProgress?.(bytes);
    }
    if (bytes < model.bytes) throw new Error("the connection ended too early");
    return bytes;
  } finally {
    clearTimeout(timer);
  }
}

function requireRest(response: Response, from: number, total: number): void {
  if (response.status >= 400 && response.status < 500 && response.status !== 429) {
    throw new FinalError(`the server answers ${response.status}`);
  }
  if (from === 0 && response.status === 200) return;
  if (
    response.status === 206 &&
    response.headers.get("content-range") === `bytes ${from}-${total - 1}/${total}`
  )
    return;
  if (response.status === 200)
    throw new FinalError("the server cannot resume: remove the .part file to start over");
  throw new Error(`the server answers ${response.status}`);
}

async function main(args: readonly string[]): Promise<number> {
  const [name, directory = "."] = args;
  const model = name === undefined ? undefined : PUBLISHED_MODELS[name];
  if (name === undefined || model === undefined) {
    const names = Object.entries(PUBLISHED_MODELS).map(
      ([known, { bytes }]) => `  ${known.padEnd(22)}${(bytes / 1e6).toFixed(0).padStart(6)} MB`,
    );
    console.error(`usage: bun scripts/fetch-model.ts NAME [DIRECTORY]\n\n${names.join("\n")}`);
    return 2;
  }
  await mkdir(directory, { recursive: true });
  const file = `ggml-${name}.bin`;
  const path = join(directory, file);
  let shownPercent = -1;
  await fetchModel({
    url: `${PUBLISHED_AT}/${file}`,
    model,
    path,
    onProgress: (bytes) => {
      const percent = Math.floor((bytes / model.bytes) * 100);
      if (percent === shownPercent || !process.stderr.isTTY) return;
      shownPercent = percent;
      process.stderr.write(`\r${file}: ${percent} %`);
    },
  });
  if (process.stderr.isTTY) process.stderr.write("\n");
  console.log(`${path}: SHA-256 is right. Install it with: shruti models add ${path}`);
  return 0;
}

if (import.meta.main) {
  try {
    process.exitCode = await main(process.argv.slice(2));
  } catch (error) {
    console.error(`fetch-model: ${(error as Error).message}`);
    process.exitCode = 1;
  }
}
