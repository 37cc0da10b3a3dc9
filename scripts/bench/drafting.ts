import { parseArgs } from "node:util";
import { SAMPLE_RATE_HZ } from "../../src/domain/chunk.ts";
import { openWhisper } from "../../src/engine/whisper/whisper.ts";
import type { Drafting, LoadedModel, WhisperOptions } from "../../src/engine/whisper/whisper-model.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { GREEDY } from "../../src/testing/programs/whisper-test-child.ts";
import { median } from "./median.ts";

/**
 * Measures what a draft model brings, with one chunk at a time.
 *
 *     bun scripts/bench/drafting.ts --model WEIGHTS --draft WEIGHTS [--language en] [--threads 1] [--rounds 3] [--ahead N] RECORDING…
 *
 * Each recording is cut into chunks of `--seconds`, and each chunk is recognized with and without a draft in turn. Decoding is what is
 * left of the time without that for one token; with a draft it holds the draft model's encoder. `--ahead` fixes how many tokens are
 * drafted. Processor time is that of the whole process. Needs ffmpeg.
 */

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: "string" },
    draft: { type: "string" },
    language: { type: "string", default: "en" },
    threads: { type: "string", default: "1" },
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "28" },
    most: { type: "string", default: "20" },
    ahead: { type: "string" },
  },
});
if (values.model === undefined || values.draft === undefined || positionals.length === 0)
  throw new Error("usage: drafting.ts --model WEIGHTS --draft WEIGHTS RECORDING…");

const threads = Number(values.threads);
const native = await extractNativeFiles("");
const whisper = openWhisper(native.dir);
const load = (draftPath?: string) =>
  whisper.load(values.model ?? "", { device: "cpu", flashAttention: true, draftPath });
const plain = await load();
const drafted = await load(values.draft);
if (drafted.draftFailure !== undefined) throw new Error(drafted.draftFailure);

function samplesOf(path: string): Float32Array {
  const form = ["-ar", String(SAMPLE_RATE_HZ), "-ac", "1", "-f", "f32le", "-"];
  const { stdout, exitCode } = Bun.spawnSync(["ffmpeg", "-v", "error", "-i", path, ...form]);
  if (exitCode !== 0) throw new Error(`ffmpeg cannot read ${path}`);
  return new Float32Array(new Uint8Array(stdout).buffer);
}

function chunksOf(samples: Float32Array): Float32Array[] {
  const size = Number(values.seconds) * SAMPLE_RATE_HZ;
  const count = Math.ceil(samples.length / size);
  return Array.from({ length: count }, (_, n) => samples.slice(n * size, (n + 1) * size)).filter(
    (chunk) => chunk.length > SAMPLE_RATE_HZ,
  );
}

type Timed = { ms: number; processorMs: number; said: string };

async function time(
  model: LoadedModel,
  samples: Float32Array,
  more: Partial<WhisperOptions>,
): Promise<Timed> {
  const groups = { threads, threadGroups: threads, groupThreads: threads };
  const options = {
    ...GREEDY,
    ...groups,
    language: values.language,
    suppressNonSpeech: true,
    fitsWindow: true,
    ...more,
  };
  const cpu = process.cpuUsage();
  const start = performance.now();
  const segments = await model.recognize(samples, options);
  const ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  const said = JSON.stringify(segments);
  return { ms, processorMs: (user + system) / 1000, said };
}

const ahead = values.ahead === undefined ? {} : { ahead: Number(values.ahead) };
const chunks = positionals.flatMap((path) => chunksOf(samplesOf(path))).slice(0, Number(values.most));
const sums = { encode: 0, plain: 0, drafted: 0, encodeCpu: 0, plainCpu: 0, draftedCpu: 0 };
const counts: Drafting = { drafted: 0, accepted: 0, ...ahead };
let differing = 0;
// The first call takes memory for a state.
await time(plain, chunks[0] ?? new Float32Array(), {});
await time(drafted, chunks[0] ?? new Float32Array(), { drafting: { drafted: 0, accepted: 0, ...ahead } });
for (const samples of chunks) {
  const rounds = { encode: [], plain: [], drafted: [] } as Record<"encode" | "plain" | "drafted", Timed[]>;
  for (let round = 0; round < Number(values.rounds); round++) {
    const before = { ...counts };
    rounds.encode.push(await time(plain, samples, { maxTokens: 1 }));
    rounds.plain.push(await time(plain, samples, {}));
    rounds.drafted.push(await time(drafted, samples, { drafting: counts }));
    if (round > 0) Object.assign(counts, before);
  }
  if (rounds.plain[0]?.said !== rounds.drafted[0]?.said) differing++;
  const middle = (all: Timed[], of: "ms" | "processorMs") => median(all.map((each) => each[of]));
  sums.encode += middle(rounds.encode, "ms");
  sums.plain += middle(rounds.plain, "ms");
  sums.drafted += middle(rounds.drafted, "ms");
  sums.encodeCpu += middle(rounds.encode, "processorMs");
  sums.plainCpu += middle(rounds.plain, "processorMs");
  sums.draftedCpu += middle(rounds.drafted, "processorMs");
}
await plain.close();
await drafted.close();

const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
const decoding = sums.plain - sums.encode;
const decodingDrafted = sums.drafted - sums.encode;
console.log(`${whisper.cpuVariant}, ${threads} threads, ${chunks.length} chunks`);
console.log(
  `whole calls: ${seconds(sums.plain)} without, ${seconds(sums.drafted)} with a draft (${(sums.plain / sums.drafted).toFixed(2)} ×)`,
);
console.log(
  `decoding: ${seconds(decoding)} without, ${seconds(decodingDrafted)} with a draft (${(decoding / decodingDrafted).toFixed(2)} ×)`,
);
console.log(
  `processor time: ${seconds(sums.plainCpu)} without, ${seconds(sums.draftedCpu)} with a draft; of one token ${seconds(sums.encodeCpu)}`,
);
const share = counts.drafted === 0 ? 0 : counts.accepted / counts.drafted;
console.log(
  `${counts.drafted} tokens drafted, ${(100 * share).toFixed(1)} % accepted; ${differing} chunks differ`,
);
