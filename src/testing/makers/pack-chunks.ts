import type { Chunk, ChunkLimits, ChunkRegion } from "../../domain/chunk.ts";
import { createPacker } from "../../pipeline/chunks.ts";

/** Packs all regions of a recording at once. */
export function packChunks(regions: readonly ChunkRegion[], limits: ChunkLimits): Chunk[] {
  const packer = createPacker(limits);
  return [...packer.add(regions), ...packer.end()];
}
