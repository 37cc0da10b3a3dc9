import { computed, signal } from "@preact/signals";
import type { Model, ModelList, Usage } from "../http/wire/schemas.ts";
import { type Ask, asFailure, ask } from "./lib/api.ts";
import { loadAgain } from "./lib/leaving.ts";

const STORED = "shruti-key";
/** Is kept for the page that is loaded after a session has ended by itself. */
const ENDED = "shruti-ended";

/** Uses what the browser keeps until the tab is closed. Returns undefined where the browser keeps nothing. */
function inTab<T>(use: (kept: Storage) => T): T | undefined {
  try {
    return use(sessionStorage);
  } catch {
    return undefined;
  }
}

const key = signal(inTab((kept) => kept.getItem(STORED)) ?? undefined);

/** Whether the session before this page's ended by itself. */
export const hasEnded = signal(inTab((kept) => kept.getItem(ENDED)) != null);
inTab((kept) => kept.removeItem(ENDED));

/** Whether a person has signed in with a project key. */
export const isSignedIn = computed(() => key.value !== undefined);
/** The public part of the key: what this browser keeps belongs to it. */
export const keyName = computed(() => key.value?.slice(0, 28) ?? "");
export const models = signal<readonly Model[]>([]);
/** Whether the server searches metadata. */
export const hasMetadata = signal(false);
/** Credit and price; undefined while unknown, or when the key may not read it. */
export const account = signal<Usage | undefined>(undefined);

/**
 * Sends a request with the project key. When the key is not valid any more, the session ends.
 *
 * @throws Failure
 */
export async function askWithKey(path: string, options: Ask = {}): Promise<Response> {
  const headers = { ...options.headers, authorization: `Bearer ${key.value}` };
  try {
    return await ask(path, { ...options, headers });
  } catch (error) {
    if (asFailure(error).code === "unauthorized" && key.value !== undefined) signOut(true);
    throw error;
  }
}

export const read = async <T>(path: string, options: Ask = {}): Promise<T> =>
  (await (await askWithKey(path, options)).json()) as T;

/**
 * Signs in: reads what every view needs.
 *
 * @param isStored keeps the key until the tab is closed, so that a reload does not ask for it again
 * @throws Failure when the server refuses the key
 */
export async function signIn(given: string, isStored: boolean): Promise<void> {
  const headers = { authorization: `Bearer ${given}` };
  const list = (await (await ask("v1/models", { headers })).json()) as ModelList;
  useModels(list);
  hasEnded.value = false;
  key.value = given;
  if (isStored) sessionStorage.setItem(STORED, given);
  await refreshAccount();
}

/** Reads models and credit after a reload with a stored key. */
export async function resumeSession(): Promise<void> {
  if (key.value === undefined) return;
  const list = await read<ModelList>("v1/models");
  useModels(list);
  await refreshAccount();
}

function useModels(list: ModelList): void {
  models.value = list.data;
  hasMetadata.value = list.metadata === true;
}

/** Reads the credit again. A key without the scope `usage:read` sees none. */
export async function refreshAccount(): Promise<void> {
  account.value = await read<Usage>("v1/usage?limit=1").catch(() => undefined);
}

/** Removes the key and loads the page again. @param isByItself true after the server has refused the key */
export function signOut(isByItself = false): void {
  key.value = undefined;
  inTab((kept) => {
    kept.removeItem(STORED);
    if (isByItself) kept.setItem(ENDED, "1");
  });
  loadAgain();
}
