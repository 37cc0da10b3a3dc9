import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Session } from "../../http/wire/console.ts";
import { type Ask, asFailure, ask, type Failure } from "../lib/api.ts";

const API = "console/api";
const LINK = /^#admin=(.+)$/;

/** The session of the browser's cookie; null: there is none; undefined: not asked yet. */
export const session = signal<Session | null | undefined>(undefined);
export const sessionProblem = signal<Failure | undefined>(undefined);

/** Whether the address is a link with a secret. */
export const hasLink = (): boolean => LINK.test(location.hash);

/** Opens a session with the link's secret, or finds the one that the browser has. */
export async function openSession(): Promise<void> {
  const token = LINK.exec(location.hash)?.[1];
  sessionProblem.value = undefined;
  // The secret leaves the address and the history at once.
  if (token !== undefined) history.replaceState(null, "", "#/admin");
  try {
    const answer =
      token === undefined
        ? await ask(`${API}/session`)
        : await ask(`${API}/session`, { method: "POST", body: { token } });
    session.value = (await answer.json()) as Session;
  } catch (error) {
    session.value = null;
    const failure = asFailure(error);
    if (token !== undefined || failure.code !== "unauthorized") sessionProblem.value = failure;
  }
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export async function endSession(): Promise<void> {
  await adminAsk("session", { method: "DELETE" }).catch(() => undefined);
  session.value = null;
}

/**
 * Sends a request of the admin. Those that change something carry the session's token.
 *
 * @param path below `/console/api`
 * @throws Failure
 */
export async function adminAsk<T>(path: string, options: Ask = {}): Promise<T> {
  const token = session.value?.csrf_token;
  const headers = token === undefined || options.method === undefined ? {} : { "x-csrf-token": token };
  try {
    return (await (await ask(`${API}/${path}`, { ...options, headers })).json()) as T;
  } catch (error) {
    if (asFailure(error).code === "unauthorized") session.value = null;
    throw error;
  }
}

/** What a view reads: the latest answer, why the last try failed, and another try. */
export type Loaded<T> = { data: T | undefined; failure: Failure | undefined; reload: () => Promise<void> };

/** Reads an address of the admin's API, and again at times. */
export function useLoaded<T>(path: string, everyMs?: number): Loaded<T> {
  const state = useSignalState<T>();
  const reload = async () => {
    try {
      state.value = { path, data: await adminAsk<T>(path), failure: undefined };
    } catch (error) {
      state.value = {
        path,
        data: state.value.path === path ? state.value.data : undefined,
        failure: asFailure(error),
      };
    }
  };
  useEffect(() => {
    void reload();
    if (everyMs === undefined) return;
    const timer = setInterval(() => void (document.hidden || reload()), everyMs);
    return () => clearInterval(timer);
  }, [path]);
  const { data, failure } = state.value;
  return { data: state.value.path === path ? data : undefined, failure, reload };
}

type State<T> = { path: string; data: T | undefined; failure: Failure | undefined };

function useSignalState<T>() {
  return useSignal<State<T>>({ path: "", data: undefined, failure: undefined });
}
