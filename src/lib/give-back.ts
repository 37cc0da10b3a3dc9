/**
 * Gives a chunk's memory back now. Left to the garbage collector, which sees small objects and not the bytes
 * behind them, an upload held up to 100 MiB of written chunks.
 */
export function giveBack({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
