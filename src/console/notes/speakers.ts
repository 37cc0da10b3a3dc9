import { signal } from "@preact/signals";
import type { TranscriptionResult } from "../../http/wire/schemas.ts";
import { keep, keptUnder } from "../lib/kept.ts";
import { words } from "../words/words.ts";

/**
 * Colours that people with any kind of colour blindness can tell apart (Okabe and Ito). There are as many patterns
 * (`lane.ts`, `.pattern-…` in the styles).
 */
export const SPEAKER_COLOURS = [
  "#0072b2",
  "#d55e00",
  "#009e73",
  "#cc79a7",
  "#b8860b",
  "#56b4e9",
  "#8a63c9",
  "#8c6d5a",
] as const;

/** Colour and pattern of a speaker, by a number from 0. 64 speakers have 64 pairs of them. */
export function styleOf(number: number): { colour: number; pattern: number } {
  const count = SPEAKER_COLOURS.length;
  return { colour: number % count, pattern: (number + Math.floor(number / count)) % count };
}

/** The class of a small field with the colour and pattern of a speaker. */
export function swatchOf(number: number): string {
  const { colour, pattern } = styleOf(number);
  return `swatch colour-${colour} pattern-${pattern}`;
}

/** Names that people gave to speakers, by the transcription's ID. */
const given = signal<ReadonlyMap<string, Record<string, string>>>(new Map());

export async function loadSpeakerNames(id: string): Promise<void> {
  const found = await keptUnder<Record<string, string>>("speakers", id).catch(() => new Map());
  const names = found.get(id);
  if (names) given.value = new Map([...given.value, [id, names]]);
}

/** Forgets the names in the views; what the browser keeps is another matter. @param id left out: of all transcriptions */
export function forgetSpeakerNames(id?: string): void {
  given.value = id === undefined ? new Map() : new Map([...given.value].filter(([one]) => one !== id));
}

export async function renameSpeaker(id: string, speaker: string, name: string): Promise<void> {
  const names = { ...given.value.get(id), [speaker]: name.trim() };
  if (name.trim() === "") delete names[speaker];
  given.value = new Map([...given.value, [id, names]]);
  await keep("speakers", id, names).catch(() => undefined);
}

/** The names that were given in a transcription, by the labels of the interface. */
export const givenNames = (id: string): Record<string, string> => given.value.get(id) ?? {};

/** `speaker_3` → 2. */
export const numberOf = (speaker: string): number => Math.max(0, Number(/\d+$/.exec(speaker)?.[0] ?? 1) - 1);

/** The name of a speaker: a given one, or a number. */
export function speakerName(id: string, speaker: string): string {
  return givenNames(id)[speaker] ?? words.value.speakers.numbered(String(numberOf(speaker) + 1));
}

/** Lists the speakers in the order of their first words. */
export function speakersIn(segments: readonly TranscriptionResult["segments"][number][]): string[] {
  return [...new Set(segments.flatMap(({ speaker }) => (speaker === undefined ? [] : [speaker])))];
}
