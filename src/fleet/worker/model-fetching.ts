import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { freeBytesOf } from "../../lib/disk-space.ts";
import { createFile } from "../../lib/durable-files.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { Log } from "../../lib/log.ts";
import type { Link } from "../link.ts";
import {
  type Beat,
  briefly,
  MAX_LACKING,
  PROTOCOL,
  type RemoteModel,
  readHelloReply,
  write,
} from "../messages.ts";
import { FetchError, fetchFile, fetchText } from "./fetching-file.ts";

/** A model's files under temporary names. `path`: its only file, or the folder with all of them. */
export type FetchedModel = { manifestPath: string; path: string; sha256: string; id: string };

export type ModelFetchingDeps = {
  link: Pick<Link, "request">;
  /** Subject of the worker's questions. */
  subject: string;
  version: string;
  ca: string;
  /** Reports whether the worker has a model, by the SHA-256 by which machines find it. */
  has: (sha256: string) => boolean;
  log: Log;
} & FetchOptions;

export type FetchOptions = {
  /** An absolute path for files that are not complete, on the disk of the models. Whatever is there is removed. */
  folder: string;
  /** Most bytes of all installed models together. */
  maxBytes: number;
  /** Bytes that stay free on the disk. */
  reserveBytes: number;
  /** Returns the bytes of the installed models. */
  installedBytes: () => number;
  /**
   * Compares a model's files with its manifest and installs it.
   *
   * @throws Error with the reason why the model is refused; nothing is installed then
   */
  install: (model: FetchedModel) => Promise<void>;
};

/** Fetches the models that the fleet uses and this worker lacks. */
export type ModelFetching = {
  /** Asks the control plane for its models, and fetches what is missing. Returns whether models were installed. */
  look(): Promise<boolean>;
  /** Returns the models that are missing, and why. */
  lacking(): NonNullable<Beat["lacking"]>;
  /** Stops, and removes what is not complete. */
  close(): Promise<void>;
};

const ANSWER_WITHIN_MS = 3_000;
const MAX_MANIFEST_BYTES = 64 * 1024;
const FILE_MODE = 0o644;
/** A model that was refused is fetched again after this time, then after twice that. */
const FIRST_REST_MS = 60_000;
const LONGEST_REST_MS = 3_600_000;
/** Tokens hold for ten minutes. */
const TOKEN_AGE_MS = 5 * 60_000;

type Refusal = { reason: string; until: number; restMs: number };

export function createModelFetching(deps: ModelFetchingDeps): ModelFetching {
  const { folder, log } = deps;
  const stop = new AbortController();
  const lacking = new Map<string, { id: string; reason: string }>();
  const refused = new Map<string, Refusal>();
  let current: Promise<boolean> | undefined;
  let baseUrl = "";

  /** Asks for the models of the control plane. */
  async function askForModels(): Promise<readonly RemoteModel[]> {
    const hello = write({ v: PROTOCOL, version: deps.version, wants_models: true });
    const reply = readHelloReply((await deps.link.request(deps.subject, hello, ANSWER_WITHIN_MS)).data);
    baseUrl = reply.base_url;
    return reply.models ?? [];
  }

  /** Returns a function that returns the model's token, and asks for a younger one when it is old. */
  function tokenOf({ sha256, token }: RemoteModel): () => Promise<string> {
    let [known, since] = [token, performance.now()];
    return async () => {
      if (performance.now() - since < TOKEN_AGE_MS) return known;
      const found = (await askForModels()).find((model) => model.sha256 === sha256);
      if (!found) throw new FetchError("the control plane does not use the model any more");
      [known, since] = [found.token, performance.now()];
      return known;
    };
  }

  async function fetchModel(model: RemoteModel): Promise<void> {
    const { id, sha256, files } = model;
    const url = (path: string) => `${baseUrl}/models/${sha256}/${path}`;
    const remote = { token: tokenOf(model), ca: deps.ca };
    const total = bytesOf(model);
    await rm(folder, { recursive: true, force: true });
    await mkdir(join(folder, "files"), { recursive: true });
    const manifestPath = join(folder, "manifest.toml");
    const manifest = await fetchText({ ...remote, url: url("manifest") }, MAX_MANIFEST_BYTES, stop.signal);
    await writeFile(manifestPath, manifest);
    let done = 0;
    const directory = join(folder, "files");
    for (const { name, bytes } of files) {
      const file = await createFile(join(directory, name), FILE_MODE);
      try {
        await fetchFile({ ...remote, url: url(`files/${name}`), bytes }, file, stop.signal, (there) =>
          lacking.set(sha256, {
            id,
            reason: `it is being fetched: ${megabytes(done + there)} of ${megabytes(total)} MB`,
          }),
        );
        await file.sync();
      } finally {
        await file.close();
      }
      done += bytes;
    }
    lacking.set(sha256, { id, reason: "it is being verified" });
    const only = files.length === 1 ? files[0]?.name : undefined;
    const path = only === undefined ? directory : join(directory, only);
    await deps.install({ manifestPath, path, sha256, id });
  }

  async function tryModel(model: RemoteModel): Promise<boolean> {
    const { id, sha256 } = model;
    try {
      await requireSpace(deps, model);
      log.info({ model: id, bytes: bytesOf(model) }, "a model is fetched from the control plane");
      await fetchModel(model);
      log.info({ model: id }, "a model was fetched and verified");
      lacking.delete(sha256);
      refused.delete(sha256);
      return true;
    } catch (error) {
      if (stop.signal.aborted) return false;
      const reason = errorMessage(error);
      const restMs = Math.min(LONGEST_REST_MS, 2 * (refused.get(sha256)?.restMs ?? FIRST_REST_MS / 2));
      refused.set(sha256, { reason, restMs, until: performance.now() + restMs });
      lacking.set(sha256, { id, reason });
      log.error({ model: id, reason }, "a model could not be fetched from the control plane");
      return false;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  async function lookOnce(): Promise<boolean> {
    const models = await askForModels();
    for (const sha256 of lacking.keys()) {
      if (deps.has(sha256) || models.every((model) => model.sha256 !== sha256)) lacking.delete(sha256);
    }
    let isChange = false;
    for (const model of models) {
      if (stop.signal.aborted || deps.has(model.sha256)) continue;
      if (performance.now() < (refused.get(model.sha256)?.until ?? 0)) continue;
      isChange = (await tryModel(model)) || isChange;
    }
    return isChange;
  }

  // What a killed process has left.
  const cleared = rm(folder, { recursive: true, force: true });
  return {
    async look() {
      if (current || stop.signal.aborted) return false;
      // A control plane that cannot be reached is asked again a little later.
      current = cleared.then(lookOnce).catch(() => false);
      try {
        return await current;
      } finally {
        current = undefined;
      }
    },
    lacking: () =>
      [...lacking.values()].slice(0, MAX_LACKING).map(({ id, reason }) => ({ id, reason: briefly(reason) })),
    async close() {
      stop.abort(new Error("the worker is closing"));
      await current;
      await cleared;
    },
  };
}

/** @throws FetchError when there is no space for a model */
async function requireSpace(
  { folder, maxBytes, reserveBytes, installedBytes }: FetchOptions,
  model: RemoteModel,
): Promise<void> {
  const bytes = bytesOf(model);
  if (installedBytes() + bytes > maxBytes) {
    throw new FetchError(
      `its ${megabytes(bytes)} MB, with the models that are here, exceed fleet.fetch_models_max_bytes`,
    );
  }
  await mkdir(dirname(folder), { recursive: true });
  if (freeBytesOf(dirname(folder)) < bytes + reserveBytes) {
    throw new FetchError(`the disk has no space for ${megabytes(bytes)} MB beside storage.reserve_bytes`);
  }
}

function bytesOf({ files }: RemoteModel): number {
  return files.reduce((sum, { bytes }) => sum + bytes, 0);
}

const megabytes = (bytes: number) => Math.ceil(bytes / 1e6);
