import { fileOf, type ModelFiles } from "../../domain/model.ts";
import type { FamilyMachine } from "../contract.ts";
import { readHead } from "./model-file.ts";
import { unsharedReason } from "./step-sharing.ts";

/**
 * Says why a model cannot draft for another one; undefined: it can. Whether their tokens are the same is seen in full when both
 * are loaded.
 */
export function draftFault(files: ModelFiles, draftFiles: ModelFiles): string | undefined {
  const [model, draft] = [files, draftFiles].map((each) => readHead(fileOf(each, "weights")));
  if (!model || !draft) return "its file cannot be read";
  return model.vocab === draft.vocab ? undefined : `it has ${draft.vocab} tokens, and not ${model.vocab}`;
}

/** Says why no model can draft for one on this machine's processor; undefined: another can. */
export function draftHindrance({ weights }: ModelFiles, machine: FamilyMachine): string | undefined {
  const head = weights === undefined ? undefined : readHead(weights);
  return head ? unsharedReason(head, machine) : "its file cannot be read";
}
