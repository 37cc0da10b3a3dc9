/** A processor, GPU or accelerator that a recognizer can compute on. */
export type ComputeDevice = {
  /** Number among the GPUs (`gpu` and `igpu` together), by which a recognizer chooses one; for other types, number among those. */
  index: number;
  name: string;
  type: "cpu" | "gpu" | "igpu" | "accelerator";
  description: string;
  memoryBytes: number;
  freeBytes: number;
};
