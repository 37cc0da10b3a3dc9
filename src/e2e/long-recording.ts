import { join } from "node:path";
import { ROOT } from "../testing/rules/documents.ts";

const FILE_BYTES = 9 * 1024 * 1024;
/** Words of it. */
export const LONG_RECORDING_SAYS = "the delivery is on thursday at eleven pm";

/** Makes a WAV file of a sample's speech and silence, larger than one piece of tus, so that each client sends two. */
export async function longRecording(): Promise<Uint8Array> {
  const sample = join(ROOT, "models/samples/12-en-long.flac");
  const wav = ["-f", "s16le", "-ar", "16000", "-ac", "1", "pipe:1"];
  const child = Bun.spawn(["ffmpeg", "-v", "error", "-i", sample, ...wav], { stdin: "ignore" });
  const speech = new Uint8Array(await new Response(child.stdout).arrayBuffer());
  const file = new Uint8Array(FILE_BYTES);
  const view = new DataView(file.buffer);
  const word = (at: number, text: string) => file.set(new TextEncoder().encode(text), at);
  word(0, "RIFF");
  view.setUint32(4, FILE_BYTES - 8, true);
  word(8, "WAVEfmt ");
  for (const [at, value] of [
    [16, 16],
    [24, 16_000],
    [28, 32_000],
    [40, FILE_BYTES - 44],
  ] as const)
    view.setUint32(at, value, true);
  for (const [at, value] of [
    [20, 1],
    [22, 1],
    [32, 2],
    [34, 16],
  ] as const)
    view.setUint16(at, value, true);
  word(36, "data");
  file.set(speech, 44);
  return file;
}
