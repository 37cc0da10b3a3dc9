import type { Transcription } from "../../http/wire/schemas.ts";
import { forget, forgetAll, forgetUnder } from "../lib/kept.ts";
import { forgetCorrections } from "./corrections.ts";
import { names } from "./names.ts";
import { forgetSpeakerNames } from "./speakers.ts";

/** What this browser forgets, so that no words and names outlive the transcript that they belong to. */

/** Tells the other tabs of this browser what to forget: the ID of a transcription, or null for everything. */
const tabs = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("shruti-forgotten");
if (tabs) tabs.onmessage = ({ data }: MessageEvent<string | null>) => forgetShown(data ?? undefined);

/** Transcriptions for which there is nothing left to forget. */
const done = new Set<string>();

/** Forgets corrections and names of those transcriptions whose content is deleted, each once. */
export function forgetDeleted(ones: readonly Pick<Transcription, "id" | "content_deleted_at">[]): void {
  for (const { id, content_deleted_at } of ones) {
    if (content_deleted_at === undefined || done.has(id)) continue;
    done.add(id);
    void forgetOne(id).catch(() => done.delete(id));
  }
}

/** Forgets what this browser keeps of one transcription. */
export async function forgetOne(id: string): Promise<void> {
  forgetShown(id);
  tabs?.postMessage(id);
  await Promise.all([forgetUnder("corrections", `${id}/`), forget("speakers", id), forget("names", id)]);
}

/** Forgets everything that this browser keeps, of all keys, but not the key that is in use. */
export async function forgetEverything(): Promise<void> {
  forgetShown();
  // The other tabs first: what they would keep meanwhile is forgotten with the rest.
  tabs?.postMessage(null);
  await forgetAll();
}

/** Takes it out of the views. @param id left out: of all transcriptions */
function forgetShown(id?: string): void {
  names.value = id === undefined ? new Map() : new Map([...names.value].filter(([one]) => one !== id));
  forgetSpeakerNames(id);
  forgetCorrections(id);
}
