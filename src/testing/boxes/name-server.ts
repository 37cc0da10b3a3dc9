import { createSocket } from "node:dgram";

/** Where name servers are asked. A resolver's configuration names no port. */
const PORT = 53;
const HEADER_BYTES = 12;
const [TYPE_A, CLASS_IN] = [1, 1];
/** A response that was asked for, with recursion, and without an error. */
const FLAGS = 0x8180;
/** The name of an answer: that of the question, which begins behind the header. */
const NAME_OF_QUESTION = 0xc000 | HEADER_BYTES;

/**
 * Starts a name server that a test answers for, on an address of this machine. It needs the right to use port 53. What it says
 * may be kept for no time (TTL 0), and there are no IPv6 addresses.
 *
 * @param address such as 127.0.53.1
 * @param answer returns the IPv4 addresses of a name; the number counts the questions, from 1
 */
export async function startNameServer(
  address: string,
  answer: (name: string, count: number) => readonly string[],
): Promise<{ asked: string[]; stop: () => Promise<void> }> {
  const asked: string[] = [];
  const socket = createSocket("udp4");
  socket.on("message", (query, from) => {
    const { name, type, end } = questionOf(query);
    const isAsked = type === TYPE_A;
    if (isAsked) asked.push(name);
    const addresses = isAsked ? answer(name, asked.length) : [];
    socket.send(responseTo(query, end, addresses), from.port, from.address);
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.bind(PORT, address, resolve);
  });
  return { asked, stop: () => new Promise((resolve) => socket.close(() => resolve())) };
}

/** Reads the one question of a query (RFC 1035 section 4.1.2). `end` is where it ends. */
function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join("."), type: query.readUInt16BE(at + 1), end: at + 5 };
}

function responseTo(query: Buffer, end: number, addresses: readonly string[]): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  query.copy(head, 0, 0, 2);
  head.writeUInt16BE(FLAGS, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(addresses.length, 6);
  const records = addresses.map((address) => {
    const record = Buffer.alloc(16);
    record.writeUInt16BE(NAME_OF_QUESTION, 0);
    record.writeUInt16BE(TYPE_A, 2);
    record.writeUInt16BE(CLASS_IN, 4);
    record.writeUInt16BE(4, 10);
    Buffer.from(address.split(".").map(Number)).copy(record, 12);
    return record;
  });
  return Buffer.concat([head, query.subarray(HEADER_BYTES, end), ...records]);
}
