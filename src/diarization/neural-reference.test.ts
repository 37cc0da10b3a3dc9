import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeAudio } from "../engine/audio/decode.ts";
import { extractNativeFiles } from "../native/native-files.ts";
import { type SpeakerFramework, waveModel } from "../testing/makers/onnx-makers.ts";
import { HIGH_VOICE, LOW_VOICE, makeConversation } from "../testing/makers/voices.ts";
import type { ReferenceRequest, ReferenceResult } from "../testing/programs/sherpa-speakers.ts";
import { diarizeNeurally } from "./diarize-neural.ts";
import { openSpeakerModels } from "./neural-models.ts";

/** What sherpa-onnx finds with the same weights is the reference for distinguishing speakers. */

const MODELS = join(import.meta.dir, "../../models");
const SEGMENTATION = join(MODELS, "speakers/pyannote-segmentation-3.0.onnx");
const RECORDINGS = ["trial/jfk.wav", "samples/10-en-stereo.flac", "samples/08-en-phone.wav"].map((name) =>
  join(MODELS, name),
);
/** Recordings of conversations that this repository does not have. */
const LABELLED = join(import.meta.dir, "../../../shared/data/diarization");
const CONVERSATIONS = ["dev00", "trn00", "pyannote_sample"].map((name) => join(LABELLED, `${name}.wav`));
const SAMPLE = join(MODELS, "samples/01-en.wav");
const WAV_HEAD_BYTES = 44;
const { signal } = new AbortController();

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "shruti-speakers-"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function write(name: string, bytes: Uint8Array): string {
  const path = join(directory, name);
  writeFileSync(path, bytes);
  return path;
}

async function reference(request: ReferenceRequest): Promise<ReferenceResult> {
  const program = join(import.meta.dir, "../testing/programs/sherpa-speakers.ts");
  const child = Bun.spawn([process.execPath, program, JSON.stringify(request)], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  if ((await child.exited) !== 0) throw new Error(errors);
  return JSON.parse(out) as ReferenceResult;
}

function soundOf(pcmPath: string): Float32Array {
  const pcm = new Int16Array(new Uint8Array(readFileSync(pcmPath)).buffer);
  return Float32Array.from(pcm, (sample) => sample / 32_768);
}

function cosine(one: ArrayLike<number>, other: ArrayLike<number>): number {
  let [product, first, second] = [0, 0, 0];
  for (let n = 0; n < one.length; n++) {
    const [a = 0, b = 0] = [one[n], other[n]];
    product += a * b;
    first += a * a;
    second += b * b;
  }
  return product / Math.sqrt(first * second);
}

describe("compared with sherpa-onnx", () => {
  const FRAMEWORKS: SpeakerFramework[] = ["wespeaker", "3d-speaker", "nemo"];
  test.each(FRAMEWORKS)(
    "a voice has the same vector with models of %s",
    async (framework) => {
      const embedding = write(`${framework}.onnx`, waveModel(framework));
      const made = makeConversation([LOW_VOICE, HIGH_VOICE], 10, 5).pcm;
      const pcmPaths = [
        write("sample.pcm", readFileSync(SAMPLE).subarray(WAV_HEAD_BYTES)),
        write("made.pcm", new Uint8Array(made.buffer)),
        // A number of samples that does not end with a frame.
        write("short.pcm", new Uint8Array(made.buffer).subarray(20_000, 20_000 + 2 * 3_333)),
      ];
      const { vectors = [] } = await reference({ embedding, pcmPaths });
      const weights = { segmentationPath: SEGMENTATION, embeddingPath: embedding };
      const models = await openSpeakerModels(await extractNativeFiles(directory), weights);
      for (const [index, path] of pcmPaths.entries()) {
        const vector = await models.describe(soundOf(path), signal);
        expect(vectors[index]).toHaveLength(vector?.length ?? 0);
        expect(cosine(vector ?? [], vectors[index] ?? [])).toBeGreaterThan(0.999);
      }
      // Other sound has another vector, so that the comparison says something.
      expect(cosine(vectors[0] ?? [], vectors[1] ?? [])).toBeLessThan(0.9);
    },
    60_000,
  );

  // The program counts people in another way. With one person, everything but that is compared.
  async function compareTurns(recordings: readonly string[]): Promise<number> {
    const embedding = write("turns.onnx", waveModel("wespeaker"));
    const nativeFiles = await extractNativeFiles(directory);
    const pcmPaths: string[] = [];
    for (const path of recordings) {
      const pcmPath = join(directory, `${pcmPaths.length}.pcm`);
      await decodeAudio(nativeFiles, path, { output: pcmPath, maxDurationMs: 60_000, timeoutMs: 30_000 });
      pcmPaths.push(pcmPath);
    }
    const { turns = [] } = await reference({ embedding, segmentation: SEGMENTATION, clusters: 1, pcmPaths });
    const weights = { segmentationPath: SEGMENTATION, embeddingPath: embedding };
    for (const [index, pcmPath] of pcmPaths.entries()) {
      const job = {
        tracks: [{ pcmPath, regions: [{ startSample: 0, endSample: 1 }] }],
        minSpeakers: 1,
        maxSpeakers: 1,
      };
      const { turns: [ours = []] = [] } = await diarizeNeurally(nativeFiles, job, weights, { signal });
      const theirs = (turns[index] ?? []).map(({ start, end, speaker }) => ({ start, end, speaker }));
      expect(ours.map(({ speaker }) => speaker)).toEqual(theirs.map(({ speaker }) => speaker));
      for (const [turn, { startMs, endMs }] of ours.entries()) {
        expect(Math.abs(startMs - (theirs[turn]?.start ?? 0) * 1000)).toBeLessThan(1);
        expect(Math.abs(endMs - (theirs[turn]?.end ?? 0) * 1000)).toBeLessThan(1);
      }
    }
    return turns.flat().length;
  }

  // One person has fewer turns than several, and so many in these recordings.
  test("speech is at the same times", async () => {
    expect(await compareTurns(RECORDINGS)).toBe(10);
  }, 120_000);

  test.skipIf(!existsSync(LABELLED))(
    "speech of conversations is at the same times (needs ../shared/data)",
    async () => {
      expect(await compareTurns(CONVERSATIONS)).toBe(8);
    },
    120_000,
  );
});
