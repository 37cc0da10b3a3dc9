import { signal } from "@preact/signals";
import { forget, keep, keptUnder } from "../lib/kept.ts";

/** Names of files by the transcription's ID. The server does not know them: they are this browser's notes. */
export const names = signal<ReadonlyMap<string, string>>(new Map());

export async function loadNames(): Promise<void> {
  names.value = await keptUnder<string>("names").catch(() => new Map());
}

/** Notes a name, or another one. An empty one is none. */
export async function noteName(id: string, typed: string): Promise<void> {
  const name = typed.trim();
  const noted = new Map(names.value);
  if (name === "") noted.delete(id);
  else noted.set(id, name);
  names.value = noted;
  await (name === "" ? forget("names", id) : keep("names", id, name)).catch(() => undefined);
}
