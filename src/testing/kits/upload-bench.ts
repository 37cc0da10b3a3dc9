import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDecoderPlaces } from "../../admission/decoder-places.ts";
import type { Config } from "../../config/schema.ts";
import type { Owner } from "../../domain/ownership.ts";
import { createStorageHandler } from "../../http/storage/storage.ts";
import { errorResponse, toAppError } from "../../http/wire/errors.ts";
import { toCreatedResponse, toUploadResponse } from "../../http/wire/uploads.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { freeBytesOf, totalBytesOf } from "../../lib/disk-space.ts";
import { type Log, silentLog } from "../../lib/log.ts";
import { type ClockTrust, createClockTrust } from "../../services/clock-trust.ts";
import { createUnpaidActs } from "../../services/unpaid-acts.ts";
import { createUploadService, type UploadDeps, type UploadService } from "../../services/uploads/uploads.ts";
import { type Database, openDatabase } from "../../store/database.ts";
import { organizations, projects } from "../../store/schema.ts";
import { testConfig } from "./test-config.ts";

/** The project that owns the uploads of a test. */
export const CALLER: Owner = { organizationId: "org_test", projectId: "prj_test" };
/** Another project of the same organization, and one of another organization. */
export const SIBLING: Owner = { organizationId: "org_test", projectId: "prj_sibling" };
export const STRANGER: Owner = { organizationId: "org_other", projectId: "prj_other" };

export type UploadBenchOptions = {
  dataDir?: string;
  clock?: Clock;
  log?: Log;
  config?: Config;
  verifyAudio?: UploadDeps["verifyAudio"];
  freeBytes?: UploadDeps["freeBytes"];
  diskBytes?: UploadDeps["diskBytes"];
  decoders?: UploadDeps["decoders"];
};

export type UploadBench = {
  dataDir: string;
  database: Database;
  config: Config;
  trust: ClockTrust;
  uploads: UploadService;
  close(): Promise<void>;
};

/** Reports one second of mono audio for every file. */
export const acceptingVerifier: UploadDeps["verifyAudio"] = () =>
  Promise.resolve({ durationMs: 1000, channels: 1, sampleRateHz: 8000, truncated: false, reading: {} });

/** Opens the upload service on a new database file and a new directory, which `close` removes. */
export function openUploadBench(options: UploadBenchOptions = {}): UploadBench {
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), "shruti-uploads-"));
  const database = openDatabase(join(dataDir, "shruti.db"));
  const config = options.config ?? testConfig({ storage: { reserve_bytes: 0 } });
  insertOwners(database);
  const { clock = systemClock, log = silentLog } = options;
  const trust = createClockTrust({ database, clock, log });
  const uploads = createUploadService({
    ...{ database, clock, config, log, ages: trust.ages },
    dataDir,
    verifyAudio: options.verifyAudio ?? acceptingVerifier,
    decoders: options.decoders ?? createDecoderPlaces(),
    unpaidActs: createUnpaidActs({ clock, config }),
    freeBytes: options.freeBytes ?? (async () => freeBytesOf(dataDir)),
    diskBytes: options.diskBytes ?? (() => totalBytesOf(dataDir)),
  });
  return {
    dataDir,
    database,
    config,
    trust,
    uploads,
    async close() {
      await uploads.close();
      database.close();
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

function insertOwners({ store }: Database): void {
  for (const { organizationId, projectId } of [CALLER, SIBLING, STRANGER]) {
    const owner = { createdAt: 0, name: "test" };
    store
      .insert(organizations)
      .values({ ...owner, id: organizationId })
      .onConflictDoNothing()
      .run();
    store
      .insert(projects)
      .values({ ...owner, id: projectId, organizationId })
      .onConflictDoNothing()
      .run();
  }
}

export type UploadServer = { url: string; stop(): Promise<void> };

/**
 * Starts a server with the storage addresses and, instead of the authenticated routes, `POST /create` (the body is the
 * request of docs/interface.md section 4.8), `POST /complete/{id}`, `GET /upload/{id}`, `GET /alive` and `GET /held`
 * (longest time the event loop was held since the start, milliseconds).
 */
export function serveUploads(
  bench: UploadBench,
  options: { idleTimeoutSeconds?: number } = {},
): UploadServer {
  const storage = createStorageHandler({ ...bench, baseUrl: () => baseUrl() });
  const loop = watchEventLoop();
  const server: Bun.Server<unknown> = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: options.idleTimeoutSeconds ?? 10,
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    fetch: (request, own) =>
      new URL(request.url).pathname === "/held"
        ? Response.json(loop.heldMs())
        : respond(bench, baseUrl(), request, storage, own).catch((error: unknown) =>
            errorResponse(toAppError(error)),
          ),
  });
  const baseUrl = (): string => `http://127.0.0.1:${server.port}`;
  return {
    url: baseUrl(),
    stop() {
      loop.stop();
      return server.stop(true);
    },
  };
}

const TICK_MS = 5;

/** Measures the largest delay of a short timer. During that time the event loop was blocked. */
function watchEventLoop(): { heldMs(): number; stop(): void } {
  let longestMs = 0;
  let lastMs = performance.now();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - lastMs - TICK_MS);
    lastMs = nowMs;
  }, TICK_MS);
  return { heldMs: () => longestMs, stop: () => clearInterval(timer) };
}

async function respond(
  { uploads, config }: UploadBench,
  baseUrl: string,
  request: Request,
  storage: ReturnType<typeof createStorageHandler>,
  server: Bun.Server<unknown>,
): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname.startsWith("/storage/")) return storage(request, server);
  if (pathname === "/alive") return new Response("yes");
  if (pathname === "/create") {
    const created = await uploads.create(
      CALLER,
      (await request.json()) as { bytes: number; sha256?: string },
    );
    return Response.json(toCreatedResponse(created, baseUrl, config.limits.upload_expiry_seconds), {
      status: 201,
    });
  }
  const id = pathname.slice(pathname.lastIndexOf("/") + 1);
  if (pathname.startsWith("/upload/")) return Response.json(toUploadResponse(uploads.get(CALLER, id)));
  const { upload, isFinished } = await uploads.complete(CALLER, id);
  return Response.json(toUploadResponse(upload), { status: isFinished ? 200 : 202 });
}

// When it is run as a program, it serves one data directory until it is killed: `bun upload-bench.ts DIRECTORY`.
if (import.meta.main) {
  const dataDir = process.argv[2];
  if (dataDir === undefined) throw new Error("which data directory?");
  const bench = openUploadBench({ dataDir });
  bench.uploads.resumeVerification();
  process.stdout.write(`${serveUploads(bench).url}\n`);
}
