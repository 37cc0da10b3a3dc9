import { createHash } from "node:crypto";
import { createWriteStream, mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { type TarEntry, tarStream, withFolders } from "./tar-stream.ts";

/** What an image's manifest says of a blob (OCI image specification, "Content Descriptors"). */
export type Descriptor = {
  mediaType: string;
  digest: string;
  size: number;
  annotations?: Record<string, string>;
  platform?: { architecture: string; os: string };
};

/** A layer: its blob, and the digest of the same archive before it was compressed. */
export type Layer = { descriptor: Descriptor; diffId: string };

/** A folder with the blobs of an image, each under its digest. */
export type BlobStore = {
  /** Adds bytes as they are. */
  add(mediaType: string, content: string | Uint8Array): Descriptor;
  /** Adds a document as JSON. */
  addJson(mediaType: string, document: object): Descriptor;
  /** Adds the entries as a layer, compressed. */
  addLayer(entries: readonly TarEntry[], time: Date): Promise<Layer>;
  /** Returns the blobs as entries of an archive. */
  entries(): TarEntry[];
};

/**
 * Opens a folder of blobs. Nothing in it depends on the time or on the machine.
 *
 * @param folder is made
 */
export function openBlobStore(folder: string): BlobStore {
  const sizes = new Map<string, number>();
  mkdirSync(folder, { recursive: true });
  const add = (mediaType: string, content: string | Uint8Array): Descriptor => {
    const hex = sha256(content);
    writeFileSync(join(folder, hex), content);
    sizes.set(hex, Buffer.byteLength(content));
    return { mediaType, digest: `sha256:${hex}`, size: Buffer.byteLength(content) };
  };
  return {
    add,
    addJson: (mediaType, document) => add(mediaType, JSON.stringify(document)),
    async addLayer(entries, time) {
      const unnamed = join(folder, "unfinished");
      const { hex, diffHex } = await writeLayer(entries, time, unnamed);
      renameSync(unnamed, join(folder, hex));
      const { size } = statSync(join(folder, hex));
      sizes.set(hex, size);
      const mediaType = "application/vnd.oci.image.layer.v1.tar+gzip";
      return { descriptor: { mediaType, digest: `sha256:${hex}`, size }, diffId: `sha256:${diffHex}` };
    },
    entries: () =>
      [...sizes].map(([hex, bytes]) => ({
        path: `blobs/sha256/${hex}`,
        mode: 0o644,
        file: join(folder, hex),
        bytes,
      })),
  };
}

async function writeLayer(
  entries: readonly TarEntry[],
  time: Date,
  path: string,
): Promise<{ hex: string; diffHex: string }> {
  const [plain, packed] = [createHash("sha256"), createHash("sha256")];
  async function* hashed(): AsyncGenerator<Uint8Array> {
    for await (const piece of tarStream(withFolders(entries), time)) {
      plain.update(piece);
      yield piece;
    }
  }
  await pipeline(
    Readable.from(hashed()),
    createGzip({ level: 6 }),
    async function* (pieces: AsyncIterable<Uint8Array>) {
      for await (const piece of pieces) {
        packed.update(piece);
        yield piece;
      }
    },
    createWriteStream(path),
  );
  return { hex: packed.digest("hex"), diffHex: plain.digest("hex") };
}

/**
 * Writes a tar archive to a file.
 *
 * @param entries in any order; the folders above them are added
 */
export async function writeTar(entries: readonly TarEntry[], time: Date, path: string): Promise<void> {
  await pipeline(Readable.from(tarStream(withFolders(entries), time)), createWriteStream(path));
}

const sha256 = (content: string | Uint8Array) => createHash("sha256").update(content).digest("hex");
