import { signal } from "@preact/signals";
import { keep, keptUnder } from "../lib/kept.ts";

/** Names of files by the transcription's ID. The server does not know them: they are this browser's notes. */
export const names = signal<ReadonlyMap<string, string>>(new Map());

export async function loadNames(): Promise<void> {
  names.value = await keptUnder<string>("names").catch(() => new Map());
}

/** Notes a name, or another one. */
export async function noteName(id: string, name: string): Promise<void> {
  names.value = new Map([...names.value, [id, name]]);
  await keep("names", id, name).catch(() => undefined);
}
