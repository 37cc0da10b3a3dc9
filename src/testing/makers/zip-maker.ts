import { crc32, deflateRawSync } from "node:zlib";

/** An entry of a made ZIP. Fields after `content` make it lie. */
export type MadeEntry = {
  name: string;
  content: Uint8Array;
  isPacked?: boolean;
  /** Size in the headers, where it is not that of the content. */
  claimedBytes?: number;
  /** External attributes of Unix: type and mode. */
  mode?: number;
  /** General purpose flags, such as 1 for "encrypted". */
  flags?: number;
  crc?: number;
  /** The local header of this entry is taken from another entry: extents overlap. */
  sharesWith?: string;
};

/** Makes the bytes of a ZIP with these entries, without ZIP64. */
export function makeZip(entries: readonly MadeEntry[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  const positions = new Map<string, number>();
  let at = 0;
  for (const entry of entries) {
    const { name, content, isPacked = false, claimedBytes = content.length, flags = 0 } = entry;
    const packed = isPacked ? deflateRawSync(content) : Buffer.from(content);
    const nameBytes = Buffer.from(name);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(flags | 0x800, 2);
    common.writeUInt16LE(isPacked ? 8 : 0, 4);
    common.writeUInt32LE(entry.crc ?? crc32(content), 10);
    common.writeUInt32LE(isPacked ? packed.length : claimedBytes, 14);
    common.writeUInt32LE(claimedBytes, 18);
    common.writeUInt16LE(nameBytes.length, 22);
    const position = entry.sharesWith === undefined ? at : (positions.get(entry.sharesWith) ?? 0);
    positions.set(name, position);
    if (entry.sharesWith === undefined) {
      const local = Buffer.concat([Buffer.from("PK\x03\x04"), common, nameBytes, packed]);
      parts.push(local);
      at += local.length;
    }
    const central = Buffer.alloc(46);
    central.write("PK\x01\x02");
    central.writeUInt16LE(0x0314, 4);
    common.copy(central, 6);
    central.writeUInt32LE(((entry.mode ?? 0o100644) << 16) >>> 0, 38);
    central.writeUInt32LE(position, 42);
    directory.push(Buffer.concat([central, nameBytes]));
  }
  const listing = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06");
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(listing.length, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...parts, listing, end]);
}
