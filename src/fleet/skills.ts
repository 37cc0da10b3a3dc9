import type { RecognizerSettings } from "../domain/recognition.ts";
import { sha256Hex } from "../lib/sha256.ts";

/**
 * What chunks may ask for that workers of older versions do not know: such a worker would ignore it, and return another text. The
 * chunks of each skill have a queue of their own, where older workers do not look. Others look while the control plane asks them to.
 * The newest is last: a worker that has it has those before it.
 */
export const SKILLS = ["words", "translations"] as const;
export type Skill = (typeof SKILLS)[number];

/** For which skills a worker is to look, or looks. In a beat, an absent one is a skill that the worker does not have. */
export type SkillFlags = Partial<Record<Skill, boolean>>;

/** Returns the skill that a chunk needs; undefined: every worker can recognize it. */
export function skillFor({
  words,
  translates,
}: Pick<RecognizerSettings, "words" | "translates">): Skill | undefined {
  if (translates) return "translations";
  return words ? "words" : undefined;
}

/** Names the queue of a model's chunks. Those that need no skill are in the queue with the model's hash. */
export function queueOf(modelSha256: string, skill: Skill | undefined): string {
  return skill === undefined ? modelSha256 : sha256Hex(`${skill} ${modelSha256}`);
}

/** Returns a flag for each skill that this version has. */
export function allFlags(isSet: (skill: Skill) => boolean): Record<Skill, boolean> {
  return Object.fromEntries(SKILLS.map((skill) => [skill, isSet(skill)])) as Record<Skill, boolean>;
}
