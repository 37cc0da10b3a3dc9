import gpt2File from "../../models/vocabulary/gpt2.tokens.gz" with { type: "file" };
import multilingualFile from "../../models/vocabulary/multilingual.tokens.gz" with { type: "file" };

/** OpenAI's vocabularies for Whisper: of models for English alone, and of all others. */
const FILES = { gpt2: gpt2File, multilingual: multilingualFile } as const;

/** Reads the bytes of each text token of a vocabulary that the program carries: base64, one on each line. */
export async function readCarriedVocabulary(name: keyof typeof FILES): Promise<Buffer[]> {
  const packed = new Uint8Array(await Bun.file(FILES[name]).arrayBuffer());
  const text = new TextDecoder().decode(Bun.gunzipSync(packed));
  return text
    .replace(/\n$/, "")
    .split("\n")
    .map((token) => Buffer.from(token, "base64"));
}
