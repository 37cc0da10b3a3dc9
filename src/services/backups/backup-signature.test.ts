import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createHash, generateKeyPairSync } from "node:crypto";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLog } from "../../lib/log.ts";
import { keyFingerprint } from "../../lib/signatures.ts";
import { openDatabase } from "../../store/database.ts";
import { closeForgotten } from "../../testing/kits/forgotten-connections.ts";
import { manualClock } from "../../testing/kits/manual-clock.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import { createProjectIn } from "../../testing/makers/small-database.ts";
import { findFingerprint } from "../signed/appliance-key.ts";
import { signDocument } from "../signed/signed-documents.ts";
import { openBackup } from "./backup-reader.ts";
import { restoreAll } from "./backup-restore.ts";
import type { KnownKeys } from "./backup-signature.ts";
import { verifyAll, verifyDatabaseFile } from "./backup-verify.ts";
import { backUpEverything } from "./backups.ts";
import { backUpDatabase } from "./database-backup.ts";
import { restoreDatabaseFile } from "./database-restore.ts";

/** Who made a backup, and whether anybody has changed it since. */

const root = mkdtempSync(join(tmpdir(), "shruti-signatures-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const clock = manualClock();
let folder: string;
let dataDir: string;
beforeAll(() => {
  const database = openDatabase(join(root, "template/shruti.db"));
  const { uploadId } = createProjectIn(database);
  database.sqlite.run("DELETE FROM uploads WHERE id = ?", [uploadId]);
  database.sqlite.run("UPDATE organizations SET name = 'City Hospital'");
  database.close();
});
beforeEach(() => {
  folder = mkdtempSync(join(root, "t-"));
  dataDir = join(folder, "data");
  cpSync(join(root, "template"), dataDir, { recursive: true });
});

const configOf = (data: string) => testConfig({ storage: { data_dir: data, reserve_bytes: 0 } });
const own = (): KnownKeys => ({ own: findFingerprint(dataDir) });
const reasonOf = async (work: () => unknown) => {
  try {
    await work();
  } catch (error) {
    return (error as Error).message;
  }
  return "none";
};

describe("a copy of the database alone", () => {
  const file = () => join(folder, "copy.db");
  const make = () => void backUpDatabase({ config: configOf(dataDir), clock }, file());
  const restore = async (keys: KnownKeys) => {
    await closeForgotten(join(dataDir, "shruti.db"));
    return restoreDatabaseFile({ config: configOf(dataDir), clock, log: silentLog }, file(), keys);
  };
  const nameIn = (path: string) => {
    const sqlite = new SqliteDatabase(path, { readonly: true });
    const name = sqlite.query<{ name: string }, []>("SELECT name FROM organizations").get()?.name;
    const check = sqlite.query("PRAGMA integrity_check").get();
    sqlite.close();
    return [name, check];
  };

  test("is a database for every program of SQLite, and is restored without the signature", async () => {
    make();
    expect(nameIn(file())).toEqual(["City Hospital", { integrity_check: "ok" }]);
    expect(verifyDatabaseFile(file(), own()).signature.by).toBe("this_machine");
    expect((await restore(own())).signature).toEqual({ by: "this_machine", fingerprint: own().own ?? "" });
    expect(readFileSync(join(dataDir, "shruti.db"), "latin1")).not.toContain("database_backup_signature");
    expect(nameIn(join(dataDir, "shruti.db"))).toEqual(["City Hospital", { integrity_check: "ok" }]);
  });

  const CHANGES: [name: string, change: (path: string) => void, reason: RegExp | undefined][] = [
    [
      "a name changed with an editor",
      (path) => {
        const bytes = readFileSync(path);
        bytes.write("Town", bytes.indexOf("City Hospital"));
        writeFileSync(path, bytes);
      },
      /its signature is wrong: the backup was changed or damaged after it was signed/,
    ],
    [
      "a name changed with SQL",
      (path) => {
        const sqlite = new SqliteDatabase(path);
        sqlite.run("UPDATE organizations SET name = 'Town Hospital'");
        sqlite.close();
      },
      /its signature is wrong/,
    ],
    [
      "another signature of the same key",
      (path) => {
        const bytes = readFileSync(path);
        bytes.write('"bytes": 1', bytes.indexOf('"bytes": '));
        writeFileSync(path, bytes);
      },
      /its signature is wrong: it has been changed/,
    ],
    [
      "half of the signature",
      (path) => truncateSync(path, readFileSync(path).length - 2048),
      /behind its end/,
    ],
    ["something behind it", (path) => appendFileSync(path, "more"), /behind its end/],
    // As older versions made it.
    ["no signature", (path) => truncateSync(path, readFileSync(path).length - 4096), undefined],
  ];
  test.each(CHANGES)("with %s", async (_name, change, reason) => {
    make();
    change(file());
    if (reason === undefined) {
      expect(verifyDatabaseFile(file(), own()).signature.by).toBe("none");
      const demanded = await reasonOf(() => restore({ demanded: own().own }));
      expect(demanded).toContain("it is not signed, and --key demands a signature");
      expect((await restore(own())).signature).toEqual({ by: "none", fingerprint: null });
      return;
    }
    expect(await reasonOf(() => verifyDatabaseFile(file(), own()))).toMatch(reason);
    expect(await reasonOf(() => restore(own()))).toMatch(reason);
    expect(nameIn(join(dataDir, "shruti.db"))[0]).toBe("City Hospital");
    expect(readdirSync(dataDir).filter((name) => /before|restoring/.test(name))).toEqual([]);
  });
});

const sha256 = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");

describe("a backup of everything", () => {
  const archive = () => join(folder, "all.tar");
  const plain = () => join(folder, "shruti-backup");
  const store = () => join(folder, "store");
  const backUp = async () => {
    const options = { config: configOf(dataDir), configPath: undefined, environment: {}, clock };
    const request = { ...options, weights: false, secrets: false };
    await backUpEverything(request, { file: archive() });
    await backUpEverything(request, { store: store(), keep: undefined });
    expect(Bun.spawnSync(["tar", "-xf", archive()], { cwd: folder }).exitCode).toBe(0);
  };
  const signatureOf = async (path: string, keys: KnownKeys) => {
    const [one] = await verifyAll(path, keys);
    if (!one || "problem" in one) return one?.problem;
    return one.verified.signature.by;
  };
  const restore = (path: string, keys: KnownKeys) => {
    const to = join(folder, "other");
    return restoreAll(path, { config: configOf(to), dataDir: to, clock, log: silentLog, keys });
  };

  test("says whose it is, in each form", async () => {
    await backUp();
    const fingerprint = own().own ?? "";
    for (const path of [archive(), plain(), store()]) {
      expect(await signatureOf(path, own())).toBe("this_machine");
      expect(await signatureOf(path, {})).toBe("other_key");
      expect(await signatureOf(path, { own: "another", demanded: fingerprint })).toBe("given_key");
      const other = keyFingerprint(generateKeyPairSync("ed25519").publicKey);
      expect(await signatureOf(path, { ...own(), demanded: other })).toBe(
        `it is signed with the key ${fingerprint}, and not with that of --key`,
      );
      rmSync(join(folder, "other"), { recursive: true, force: true });
      expect((await restore(path, {})).verified.signature).toEqual({ by: "other_key", fingerprint });
    }
  });

  /** Changes a backup as a person could who can write to it, and does not have the key: its list is right again. */
  function tamper(): void {
    const sqlite = new SqliteDatabase(join(plain(), "shruti.db"));
    sqlite.run("UPDATE organizations SET name = 'Town Hospital'");
    sqlite.close();
    const list = join(plain(), "SHA256SUMS");
    const lines = readFileSync(list, "utf8").split("\n");
    const right = lines.map((line) => {
      const name = line.slice(66);
      return name === "" ? "" : `${sha256(join(plain(), name))}  ${name}`;
    });
    writeFileSync(list, right.join("\n"));
  }
  const signature = () => join(plain(), "signature.json");
  const resigned = (document: unknown) =>
    writeFileSync(
      signature(),
      JSON.stringify(signDocument(document, generateKeyPairSync("ed25519").privateKey)),
    );

  const FORGERIES: [name: string, forge: () => void, expected: string][] = [
    ["the old signature", () => {}, "its signature is wrong: the backup was changed"],
    ["no signature", () => rmSync(signature()), "none"],
    [
      "the signature of another key",
      () => {
        const list = sha256(join(plain(), "SHA256SUMS"));
        resigned({ object: "backup_signature", format: 1, created_at: "now", list_sha256: list });
      },
      "other_key",
    ],
    [
      "a signature of something else",
      () => resigned({ object: "receipt", list_sha256: sha256(join(plain(), "SHA256SUMS")) }),
      "its signature is wrong: it is not the signature of such a backup",
    ],
    ["a text", () => writeFileSync(signature(), "signed by me"), "its signature is wrong: it is not JSON"],
    ["brackets", () => writeFileSync(signature(), "[".repeat(16_000)), "its signature is wrong"],
    ["a large file", () => writeFileSync(signature(), "x".repeat(20_000)), "its signature.json is too large"],
  ];
  test.each(FORGERIES)("that was changed, with %s", async (_name, forge, expected) => {
    await backUp();
    tamper();
    forge();
    expect(await signatureOf(plain(), own())).toStartWith(expected);
    expect(await reasonOf(() => restore(plain(), { demanded: own().own }))).not.toBe("none");
    expect(existsSync(join(folder, "other/shruti.db"))).toBe(false);
  });

  test("is made without a signature when the key cannot be used, and says why", async () => {
    writeFileSync(join(dataDir, "signing-key.pem"), "not a key");
    const options = { config: configOf(dataDir), configPath: undefined, environment: {}, clock };
    const made = await backUpEverything({ ...options, weights: false, secrets: false }, { file: archive() });
    expect(made.signer).toEqual({ problem: "it is not a private key in PEM form" });
    expect(await signatureOf(archive(), {})).toBe("none");
  });

  test("is read as its list was when its signature was checked", async () => {
    await backUp();
    const backup = openBackup(plain());
    backup.signature(own());
    tamper();
    expect(() => [...backup.files()]).toThrow("its SHA256SUMS changed while it was read");
    backup.close();
  });
});
