import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Server } from "bun";
import type { Config } from "../../config/schema.ts";
import type { Scope } from "../../domain/api-key.ts";
import type { InstalledModel } from "../../domain/model.ts";
import { localCapacity } from "../../engine/local-executor.ts";
import { measureMachine } from "../../engine/machine.ts";
import { type Log, silentLog } from "../../lib/log.ts";
import { within } from "../../lib/within.ts";
import { type App, openApp } from "../../server/app.ts";
import { createAccountService } from "../../services/accounts.ts";
import { extractCarriedModels } from "../../services/models/carried-models.ts";
import { createDescriptionCheck, type Described } from "../answers/described.ts";
import { type ManualClock, manualClock } from "./manual-clock.ts";
import { createScriptedEngine, type ScriptedEngine } from "./scripted-engine.ts";
import { testConfig } from "./test-config.ts";

export type TestAppOptions = {
  config?: { [S in keyof Config]?: Partial<Config[S]> };
  clock?: ManualClock;
  log?: Log;
  /** Listens on a real port as well. `baseUrl` is its address. */
  listens?: boolean;
  /** An existing data directory, which is kept at the end. Default: a new one, which is removed. */
  directory?: string;
  /** The engine to use instead of a new scripted one, such as the engine of a program that was stopped. */
  engine?: ScriptedEngine;
  /** Returns what the program gets in the place of its config. */
  watch?: (config: Config) => Config;
  /** Whether the model can time words. Default: as the demonstration model. */
  canTimeWords?: boolean;
  /** Whether the model can translate. Default: as the demonstration model. */
  canTranslate?: boolean;
  /** Paise granted to the first organization; default 1,000,000. */
  creditPaise?: number;
};

/** Milliseconds of speech in a chunk. The manifest of the embedded model is overridden. */
export const CHUNK_MS = 5_000;

/** Sends requests with a key. */
export type TestClient = (path: string, init?: RequestInit) => Promise<Response>;

export type TestApp = Awaited<ReturnType<typeof openTestApp>>;

/** Connections that a test leaves open are closed after this time. */
const ANSWERS_LEAVE_WITHIN_MS = 500;
const IN_PROCESS_URL = "http://shruti.test";

/**
 * Made once for each process, because it takes long and the document hardly depends on the config: only on whether the
 * OpenAI layer is enabled.
 */
const descriptions = new Map<boolean, Promise<ReturnType<typeof createDescriptionCheck>>>();

/**
 * Opens the whole program on a new data directory, with a clock that a test advances and an engine that reads the words
 * of its recordings from a script. There is one organization with a project and a key.
 */
export async function openTestApp(options: TestAppOptions = {}) {
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), "shruti-test-"));
  const clock = options.clock ?? manualClock();
  const engine: ScriptedEngine = options.engine ?? createScriptedEngine();
  const given = options.config ?? {};
  const { watch = (config: Config) => config } = options;
  const config = watch(
    testConfig({
      ...given,
      storage: { data_dir: directory, reserve_bytes: 0, ballast_bytes: 0, ...given.storage },
      limits: { requests_per_second: 0, unpaid_acts_per_second: 0, ...given.limits },
      // The number of places must not depend on the machine.
      engine: { workers: 2, synchronous_workers: 1, ...given.engine },
    }),
  );
  const machine = measureMachine();
  engine.setCapacity((bytes) => localCapacity(config.engine, machine, { bytes }));
  let server: Server<unknown> | undefined;
  const baseUrl = () => (server ? `http://127.0.0.1:${server.port}` : IN_PROCESS_URL);
  const app: App = await openApp({
    ...{ config, log: options.log ?? silentLog, clock, engine, baseUrl },
    embeddedModel: await scriptedModel(directory, options),
  });
  app.start();
  if (options.listens) {
    server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      fetch: app.handle,
    });
  }
  const accounts = createAccountService({
    database: app.database,
    clock,
    onChange: app.services.apiKeys.forgetCached,
  });
  const organization = accounts.createOrganization({ name: "First" });
  const project = accounts.createProject({ organizationId: organization.id, name: "main" });
  const creditPaise = options.creditPaise ?? 1_000_000;
  if (creditPaise > 0)
    app.services.credit.grant({ organizationId: organization.id, amountPaise: creditPaise });
  const makeKey = (projectId: string, scopes?: readonly Scope[]) =>
    app.services.apiKeys.createKey({ projectId, name: "test", ...(scopes ? { scopes } : {}) }).key;
  const key = makeKey(project.id);

  const description = descriptions.get(config.openai.enabled) ?? describedBy(app.handle);
  descriptions.set(config.openai.enabled, description);
  const faultOf = await description;

  /** Sends a request without a key. Fails when the OpenAPI document does not describe the response. */
  const fetchPlain: TestClient = async (path, init = {}) => {
    const request = new Request(`${baseUrl()}${path}`, init);
    const { method } = request;
    const response = await (server ? fetch(request) : app.handle(request));
    const text = await response.clone().text();
    const { status, headers } = response;
    const fault = faultOf({ method, path: path.split("?")[0] ?? "", status, headers, text });
    if (fault !== undefined) throw new Error(`${method} ${path} is not as described: ${fault}\n${text}`);
    return response;
  };
  const as =
    (bearer: string): TestClient =>
    (path, init = {}) => {
      const headers = new Headers(init.headers);
      if (!headers.has("authorization")) headers.set("authorization", `Bearer ${bearer}`);
      return fetchPlain(path, { ...init, headers });
    };

  return {
    app,
    engine,
    clock,
    config,
    directory,
    accounts,
    organization,
    project,
    key,
    makeKey,
    baseUrl,
    fetch: fetchPlain,
    /** Sends the same kind of requests with a key. */
    as,
    async close(): Promise<void> {
      await app.drain();
      if (server) await within(ANSWERS_LEAVE_WITHIN_MS, server.stop());
      await server?.stop(true);
      await app.close();
      if (options.directory === undefined) rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function describedBy(handle: App["handle"]) {
  const response = await handle(new Request(`${IN_PROCESS_URL}/openapi.json`));
  return createDescriptionCheck((await response.json()) as Described);
}

async function scriptedModel(
  directory: string,
  { canTimeWords, canTranslate }: Pick<TestAppOptions, "canTimeWords" | "canTranslate">,
): Promise<InstalledModel> {
  const model = (await extractCarriedModels(directory)).models.at(-1);
  if (!model) throw new Error("there is no demonstration model");
  const decoding = { ...model.decoding, maxChunkMs: CHUNK_MS };
  // Before the first chunk, the speed is guessed from the size. Here that is the guess for a large model.
  const scripted = { ...model, bytes: 1e9, decoding };
  if (canTranslate !== undefined) {
    const tuning = { ...decoding.tuning, whisper: { ...decoding.tuning?.whisper, translates: canTranslate } };
    return { ...scripted, decoding: { ...decoding, tuning } };
  }
  if (canTimeWords === undefined) return scripted;
  // All CTC models can. A Whisper model cannot where its manifest says that no head follows the sound.
  if (canTimeWords) return { ...scripted, family: "nemo_ctc" };
  const tuning = { ...decoding.tuning, whisper: { ...decoding.tuning?.whisper, alignmentHeads: [] } };
  return { ...scripted, decoding: { ...decoding, tuning } };
}
