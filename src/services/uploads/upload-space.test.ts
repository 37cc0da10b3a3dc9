import { afterEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../../domain/errors.ts";
import { transaction } from "../../store/database.ts";
import { requireOrganization } from "../../store/organizations.ts";
import { markAudioDeleted } from "../../store/uploads.ts";
import { type ManualClock, manualClock } from "../../testing/kits/manual-clock.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import {
  acceptingVerifier,
  CALLER,
  openUploadBench,
  STRANGER,
  type UploadBench,
  type UploadBenchOptions,
} from "../../testing/kits/upload-bench.ts";
import { deleteUploadRecording } from "../deletions.ts";
import { type StoredLimit, storedLimitOf } from "./upload-space.ts";

/** How many bytes an organization may store, and that each way to store bytes keeps to it. */

const open: UploadBench[] = [];
function bench(limits: Record<string, number | "auto">, options: UploadBenchOptions = {}): UploadBench {
  const config = testConfig({ storage: { reserve_bytes: 0 }, limits });
  const opened = openUploadBench({ config, diskBytes: () => 1e12, ...options });
  open.push(opened);
  return opened;
}
afterEach(async () => {
  for (const opened of open.splice(0)) await opened.close();
});

const KB = 1_000;
const MIB = 1024 ** 2;
const VERIFIED = { durationMs: 1000, channels: 1, sampleRateHz: 8000, truncated: false, reading: {} };

const bodyOf = (bytes: number) => new Blob([new Uint8Array(bytes)]).stream();

async function refusalOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "none";
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return [error.code, error.detail ?? ""].join(" ").trim();
  }
}

/** The organization's cached sum, after it was compared with its uploads. */
function stored({ database: { store, sqlite } }: UploadBench, { organizationId } = CALLER): number {
  const { storedBytes } = requireOrganization(store, organizationId);
  const sum = sqlite
    .query<{ bytes: number }, [string]>(
      "SELECT coalesce(sum(space_bytes), 0) AS bytes FROM uploads WHERE organization_id = ?",
    )
    .get(organizationId);
  expect(storedBytes).toBe(sum?.bytes ?? -1);
  return storedBytes;
}

async function created({ uploads }: UploadBench, bytes: number, caller = CALLER): Promise<string> {
  return (await uploads.create(caller, { bytes })).upload.id;
}

async function sent(opened: UploadBench, bytes: number): Promise<string> {
  const id = await created(opened, bytes);
  await opened.uploads.receive(id, { at: "start over", body: bodyOf(bytes), declaredBytes: bytes });
  return id;
}

async function completed(opened: UploadBench, bytes: number): Promise<string> {
  const id = await sent(opened, bytes);
  await opened.uploads.complete(CALLER, id);
  return id;
}

function adopted({ uploads, dataDir }: UploadBench, bytes: number) {
  const path = join(dataDir, "spooled");
  writeFileSync(path, new Uint8Array(bytes));
  return uploads.adoptFile(CALLER, { path, bytes, sha256: "0".repeat(64), verified: VERIFIED });
}

describe("the limit", () => {
  type Case = {
    limits?: Record<string, number | "auto">;
    own?: number;
    balance?: number;
    price?: number;
    isAlone?: true;
    diskBytes?: number;
    expected: Partial<StoredLimit>;
  };
  const CREDIT = { bytes: 0, isWithoutCredit: false };
  test.each<[string, Case]>([
    ["three quarters of the disk beside others", { balance: 1, expected: { ...CREDIT, bytes: 750 * KB } }],
    ["none for an organization alone", { balance: 1, isAlone: true, expected: CREDIT }],
    ["a tenth of a small disk without credit", { expected: { bytes: 100 * KB, isWithoutCredit: true } }],
    ["a tenth, also alone", { isAlone: true, expected: { bytes: 100 * KB, isWithoutCredit: true } }],
    [
      "1 GiB of a large disk without credit",
      { diskBytes: 1e12, expected: { bytes: 1024 ** 3, isWithoutCredit: true } },
    ],
    ["free work needs no credit", { price: 0, expected: { ...CREDIT, bytes: 750 * KB } }],
    ["as with credit", { limits: { stored_bytes_without_credit: 0 }, expected: { bytes: 750 * KB } }],
    ["the config's", { limits: { stored_bytes: 5 }, balance: 1, expected: { bytes: 5 } }],
    ["the smaller one", { limits: { stored_bytes: 5 }, expected: { bytes: 5, isWithoutCredit: false } }],
    ["none in the config", { limits: { stored_bytes: 0 }, balance: 1, expected: CREDIT }],
    ["its own, without credit too", { own: 900 * KB, expected: { ...CREDIT, bytes: 900 * KB } }],
    ["none of its own", { own: 0, limits: { stored_bytes: 5 }, expected: CREDIT }],
  ])("is %s", (_, { limits = {}, own, balance = 0, price, isAlone, diskBytes = 1000 * KB, expected }) => {
    const { database, config } = bench(limits);
    if (isAlone) database.sqlite.run("UPDATE organizations SET disabled_at = 1 WHERE id <> ?", ["org_test"]);
    const row = { maxStoredBytes: own ?? null, balancePaise: balance, pricePaisePerAudioHour: price ?? null };
    const organization = { ...requireOrganization(database.store, "org_test"), ...row };
    expect(storedLimitOf(database.store, { config, diskBytes: () => diskBytes }, organization)).toMatchObject(
      expected,
    );
  });
});

describe("the sum", () => {
  test("follows every way in which bytes come and go", async () => {
    let isSound = true;
    const clock: ManualClock = manualClock();
    const opened = bench(
      {},
      {
        clock,
        verifyAudio: (...given) => {
          if (isSound) return acceptingVerifier(...given);
          throw new AppError("audio_decode_failed");
        },
      },
    );
    const { uploads, database } = opened;
    const { store } = database;
    const whole = await completed(opened, 5 * KB);
    expect(stored(opened)).toBe(5 * KB);
    const spooled = await adopted(opened, 7 * KB);
    expect(stored(opened)).toBe(12 * KB);
    await uploads.discardAdopted(spooled.id);
    expect(stored(opened)).toBe(5 * KB);

    // An announced file takes its first step, and more when more bytes come.
    const large = await created(opened, 20 * MIB);
    expect(stored(opened)).toBe(5 * KB + 1 * MIB);
    const part = 9 * MIB;
    await uploads.receive(large, { at: 0, body: bodyOf(part), declaredBytes: part });
    expect(stored(opened)).toBe(5 * KB + 16 * MIB);
    await uploads.receive(large, { at: part, body: bodyOf(11 * MIB) });
    expect(stored(opened)).toBe(5 * KB + 20 * MIB);
    await uploads.discardBytes(large);
    expect(stored(opened)).toBe(5 * KB + 1 * MIB);
    clock.advance(2 * 86_400_000);
    await uploads.expire({ nowMs: clock.now(), wrong: [] });
    expect(stored(opened)).toBe(5 * KB);

    isSound = false;
    const broken = await sent(opened, 3 * KB);
    expect(stored(opened)).toBe(8 * KB);
    expect(await refusalOf(uploads.complete(CALLER, broken))).toBe("audio_decode_failed");
    expect(stored(opened)).toBe(5 * KB);

    const open = await created(opened, 2 * KB);
    const upload = uploads.get(CALLER, open);
    const receipts = { write: () => ({ id: "rcp_test" }) as never };
    transaction(store, (tx) => deleteUploadRecording(tx, upload, { receipts, nowMs: clock.now() }));
    expect(stored(opened)).toBe(5 * KB);
    transaction(store, (tx) => markAudioDeleted(tx, whole, clock.now()));
    expect(stored(opened)).toBe(0);
  });
});

describe("the bound", () => {
  const CREDIT_NEEDED = "insufficient_credits stored_bytes";
  const FULL = "rate_limited stored_bytes";

  test("holds for creations, bodies with and without a length, and files of synchronous requests", async () => {
    const opened = bench({ stored_bytes_without_credit: 20 * KB });
    const { uploads } = opened;
    const first = await completed(opened, 15 * KB);
    expect(await refusalOf(created(opened, 6 * KB))).toBe(CREDIT_NEEDED);
    expect(await refusalOf(adopted(opened, 6 * KB))).toBe(CREDIT_NEEDED);
    expect(await created(opened, 5 * KB)).toStartWith("up_");
    // Another organization is not concerned.
    expect(await created(opened, 15 * KB, STRANGER)).toStartWith("up_");
    // Deleting gives the space back at once.
    transaction(opened.database.store, (tx) => markAudioDeleted(tx, first, 0));
    expect((await adopted(opened, 15 * KB)).state).toBe("complete");
    expect(await refusalOf(created(opened, 1))).toBe(CREDIT_NEEDED);
    // Credit raises it.
    opened.database.sqlite.run("UPDATE organizations SET balance_paise = 1");
    expect(await created(opened, 5 * KB)).toStartWith("up_");
    expect(uploads.storedLimitOf(requireOrganization(opened.database.store, "org_test"))).toEqual({
      bytes: 750e9,
      isWithoutCredit: false,
    });
  });

  test("an upload larger than the space without credit can be announced, and stops where the space ends", async () => {
    const opened = bench({ stored_bytes_without_credit: 20 * MIB });
    const { uploads } = opened;
    const id = await created(opened, 5 * 1024 ** 3);
    const declared = { at: "start over", body: bodyOf(1), declaredBytes: 21 * MIB } as const;
    expect(await refusalOf(uploads.receive(id, declared))).toBe(CREDIT_NEEDED);
    expect(await uploads.storedBytes(id)).toBeUndefined();
    const endless = { at: 0, body: bodyOf(40 * MIB) } as const;
    expect(await refusalOf(uploads.receive(id, endless))).toBe(CREDIT_NEEDED);
    expect(await uploads.storedBytes(id)).toBeLessThanOrEqual(20 * MIB);
    expect(stored(opened)).toBeLessThanOrEqual(20 * MIB);
  });

  test("with credit, the refusal says when to try again, or that it never fits", async () => {
    const opened = bench({ stored_bytes: 20 * KB });
    opened.database.sqlite.run("UPDATE organizations SET balance_paise = 1");
    expect(await refusalOf(created(opened, 20 * KB + 1))).toBe("audio_too_large bytes");
    await completed(opened, 15 * KB);
    expect(await refusalOf(created(opened, 6 * KB))).toBe(FULL);
    expect(await opened.uploads.create(CALLER, { bytes: 6 * KB }).catch((error) => error)).toMatchObject({
      retryAfterSeconds: 60,
    });
    expect(await refusalOf(adopted(opened, 6 * KB))).toBe(FULL);
  });

  test("many requests at once do not pass it, and announced files take their space only once", async () => {
    const opened = bench({ stored_bytes_without_credit: 100 * KB });
    const outcomes = await Promise.all(Array.from({ length: 40 }, () => refusalOf(sent(opened, 9 * KB))));
    expect(outcomes.filter((outcome) => outcome === "none")).toHaveLength(11);
    expect(new Set(outcomes)).toEqual(new Set(["none", CREDIT_NEEDED]));
    expect(stored(opened)).toBe(99 * KB);
  });

  test("as many uploads as may be open can be announced without credit, however large they are", async () => {
    const opened = bench({});
    const { max_open_uploads: most, max_upload_bytes: largest } = opened.config.limits;
    for (let count = 0; count < most; count++) await created(opened, largest);
    expect(await refusalOf(created(opened, 1))).toBe("rate_limited");
  });

  test("an upload that an earlier version has received counts when it is completed", async () => {
    const opened = bench({ stored_bytes_without_credit: 100 * KB });
    const id = await sent(opened, 50 * KB);
    opened.database.sqlite.run("UPDATE uploads SET space_bytes = 1000");
    expect(stored(opened)).toBe(1000);
    await opened.uploads.complete(CALLER, id);
    expect(stored(opened)).toBe(50 * KB);
  });
});
