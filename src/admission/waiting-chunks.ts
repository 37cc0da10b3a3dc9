type Chunk = {
  /** Identifiers sort by age. */
  transcriptionId: string;
  position: number;
  model: { id: string; slots: number };
};

/** Chunks that wait for slots, by transcription. Each call looks at transcriptions, not at their chunks. */
export type WaitingChunks<T extends Chunk> = {
  add(chunk: T): void;
  /** Removes a chunk. Does nothing when it does not wait. */
  remove(chunk: T): void;
  count(): number;
  /** Returns the first waiting chunk of each transcription. */
  heads(): T[];
  /** Returns the first chunk of the oldest transcription. */
  oldest(): T | undefined;
  /** Counts the waiting chunks of each model. */
  models(): { model: T["model"]; count: number }[];
};

export function createWaitingChunks<T extends Chunk>(): WaitingChunks<T> {
  /** The waiting chunks of each transcription, in order of position. A transcription has few more than there are slots. */
  const byTranscription = new Map<string, T[]>();
  const byModel = new Map<string, { model: T["model"]; count: number }>();
  let all = 0;

  function countModel({ model }: T, change: 1 | -1): void {
    all += change;
    const count = (byModel.get(model.id)?.count ?? 0) + change;
    if (count === 0) byModel.delete(model.id);
    else byModel.set(model.id, { model, count });
  }

  const heads = () => [...byTranscription.values()].flatMap(([head]) => head ?? []);

  return {
    add(chunk) {
      const chunks = byTranscription.get(chunk.transcriptionId) ?? [];
      const next = chunks.findLastIndex(({ position }) => position <= chunk.position) + 1;
      chunks.splice(next, 0, chunk);
      byTranscription.set(chunk.transcriptionId, chunks);
      countModel(chunk, 1);
    },
    remove(chunk) {
      const chunks = byTranscription.get(chunk.transcriptionId);
      const index = chunks?.indexOf(chunk) ?? -1;
      if (!chunks || index < 0) return;
      chunks.splice(index, 1);
      if (chunks.length === 0) byTranscription.delete(chunk.transcriptionId);
      countModel(chunk, -1);
    },
    count: () => all,
    heads,
    oldest: () => heads().sort((a, b) => (a.transcriptionId < b.transcriptionId ? -1 : 1))[0],
    models: () => [...byModel.values()],
  };
}
