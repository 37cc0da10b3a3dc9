/** An attempt at a chunk, as far as its time depends on it. */
export type ChunkFacts = {
  modelId: string;
  /** The model's window: a chunk costs whole ones, however little they hold. */
  windowMs: number;
  audioMs: number;
  threads: number;
};

/** What this machine has shown it can do; estimates and time limits follow from it. */
export type Speed = {
  /** Counts a decoded stretch and how long it took. */
  observe(chunk: ChunkFacts, elapsedMs: number): void;
  /** Counts one that was given up: perhaps it was not hung, and the machine is slower than thought. */
  observeTimeout(modelId: string): void;
  /** Time after which a worker counts as hung. */
  chunkTimeoutMs(chunk: ChunkFacts): number;
  /** Counts a finished chunk: the part of the recording it stands for, silence included, and the work it took. */
  observeProgress(recordingMs: number, threadMs: number): void;
  /** Recording transcribed per time by the whole machine, as a ratio; undefined before the first chunk. */
  realTimeFactor(): number | undefined;
  /** Time until so much recording is transcribed when nothing else is. */
  estimateMs(recordingMs: number): number;
};

/** Weight that older observations keep when a new one comes. */
const MEMORY = 0.9;
/** Before anything is known: one thread of a small processor with a large model. */
const FIRST_GUESS = 0.5;
/** Slower than the mean by this factor is hung: fallbacks decode a window up to six times, each with five samples. */
const HUNG_FACTOR = 20;
const SHORTEST_TIMEOUT_MS = 120_000;
/** Before anything is known: large weights on an old processor take a good part of this for one window. */
const FIRST_TIMEOUT_MS = 30 * 60_000;
const LONGEST_TIMEOUT_MS = 12 * 3_600_000;

/** What was learnt of one model's decoder. */
type Decoder = { ratio: Ratio; timeouts: number };

/** @param threads that all places of the engine have together when all are taken, at the moment */
export function createSpeed(threads: () => number): Speed {
  const decoders = new Map<string, Decoder>();
  const recordings = createRatio();

  /** Installed models are few, but may come and go for years. */
  function decoderOf(modelId: string): Decoder {
    const decoder = decoders.get(modelId) ?? { ratio: createRatio(), timeouts: 0 };
    if (decoders.size >= MAX_MODELS) decoders.clear();
    decoders.set(modelId, decoder);
    return decoder;
  }

  return {
    observe({ modelId, threads, ...audio }, elapsedMs) {
      const decoder = decoderOf(modelId);
      decoder.ratio.add(windowsMs(audio), elapsedMs * threads);
      decoder.timeouts = 0;
    },
    observeTimeout(modelId) {
      decoderOf(modelId).timeouts++;
    },
    chunkTimeoutMs({ modelId, threads, ...audio }) {
      const { ratio, timeouts } = decoderOf(modelId);
      const known = ratio.value();
      const windows = windowsMs(audio);
      const expectedMs =
        known === undefined
          ? (windows / audio.windowMs) * FIRST_TIMEOUT_MS
          : Math.max(SHORTEST_TIMEOUT_MS, (windows / (known * threads)) * HUNG_FACTOR);
      return Math.min(LONGEST_TIMEOUT_MS, expectedMs * 2 ** Math.min(timeouts, MAX_DOUBLINGS));
    },
    observeProgress: recordings.add,
    realTimeFactor() {
      const ratio = recordings.value();
      return ratio === undefined ? undefined : ratio * threads();
    },
    estimateMs: (recordingMs) => recordingMs / ((recordings.value() ?? FIRST_GUESS) * threads()),
  };
}

const MAX_MODELS = 100;
const MAX_DOUBLINGS = 10;

function windowsMs({ audioMs, windowMs }: Pick<ChunkFacts, "audioMs" | "windowMs">): number {
  return Math.max(1, Math.ceil(audioMs / windowMs)) * windowMs;
}

/** Audio per work over the latest observations, each with the weight of its work. */
type Ratio = { add(audioMs: number, workMs: number): void; value(): number | undefined };

function createRatio(): Ratio {
  let audio = 0;
  let work = 0;
  return {
    add(audioMs, workMs) {
      if (audioMs <= 0 || workMs <= 0) return;
      audio = audio * MEMORY + audioMs;
      work = work * MEMORY + workMs;
    },
    value: () => (work === 0 ? undefined : audio / work),
  };
}
