import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SCOPES } from "../domain/api-key.ts";
import { AppError } from "../domain/errors.ts";
import { type Database, openDatabase } from "../store/database.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { createAccountService } from "./accounts.ts";
import { createApiKeyService, publicIdOf } from "./api-keys.ts";

const DAY_MS = 86_400_000;
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

function setUp(database: Database = openDatabase(":memory:")) {
  const clock = manualClock();
  const apiKeys = createApiKeyService({ database, clock });
  const accounts = createAccountService({ database, clock, onChange: apiKeys.forgetCached });
  const organization = accounts.createOrganization({ name: "o" });
  const project = accounts.createProject({ organizationId: organization.id, name: "p" });
  closing.push(() => database.close(), apiKeys.close);
  return { database, clock, apiKeys, accounts, organization, project };
}

const code = (run: () => unknown): string | undefined => {
  try {
    run();
    return undefined;
  } catch (error) {
    return error instanceof AppError ? error.code : String(error);
  }
};

describe("keys", () => {
  test("a new key has the documented form, and only its hash is kept", () => {
    const { apiKeys, project, database } = setUp();
    const { key } = apiKeys.createKey({ projectId: project.id, name: "k" });
    expect(key).toMatch(/^shr_[0-9A-Za-z]{24}_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$/);
    const [, , secret] = key.split("_");
    const stored = JSON.stringify(database.sqlite.query("SELECT * FROM api_keys").all());
    expect(stored).not.toContain(secret ?? "");
    expect(JSON.stringify(apiKeys.listKeys())).not.toContain(secret ?? "");
  });

  test("the checksum is CRC-32 in base 62", () => {
    // Python: zlib.crc32(body) is 4178721808, in base 62 4YnUQq.
    const body = `shr_${"A".repeat(24)}_${"b".repeat(43)}`;
    expect(publicIdOf(`${body}4YnUQq`)).toBe("A".repeat(24));
  });

  test("every single typing error is refused without a look-up", () => {
    const { apiKeys, project } = setUp();
    const { key } = apiKeys.createKey({ projectId: project.id, name: "k" });
    expect(publicIdOf(key)).toBeDefined();
    for (let at = 0; at < key.length; at++) {
      const other = key[at] === "7" ? "8" : "7";
      expect(publicIdOf(key.slice(0, at) + other + key.slice(at + 1))).toBeUndefined();
    }
  });

  test("random characters are spread evenly", () => {
    const { apiKeys, project } = setUp();
    const counts = new Map<string, number>();
    const keys = 400;
    for (let n = 0; n < keys; n++) {
      const { key } = apiKeys.createKey({ projectId: project.id, name: "k" });
      for (const character of key.slice(4, 28) + key.slice(29, 72)) {
        counts.set(character, (counts.get(character) ?? 0) + 1);
      }
    }
    const expected = (keys * 67) / 62;
    const chiSquare = [...counts.values()].reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0);
    expect(counts.size).toBe(62);
    // 61 degrees of freedom. Chance exceeds this once in about 10^8 runs; a plain modulo of bytes gives over 200.
    expect(chiSquare).toBeLessThan(150);
  });

  test("scopes must be known ones, and default to all", () => {
    const { apiKeys, project } = setUp();
    const create = (scopes?: string[]) =>
      apiKeys.createKey({ projectId: project.id, name: "k", ...(scopes ? { scopes: scopes as never } : {}) });
    expect(create().scopes).toEqual([...SCOPES]);
    expect(create(["usage:read", "models:read"]).scopes).toEqual(["models:read", "usage:read"]);
    expect(code(() => create(["everything"]))).toBe("invalid_request");
    expect(code(() => create([]))).toBe("invalid_request");
    expect(code(() => apiKeys.createKey({ projectId: "prj_none", name: "k" }))).toBe("not_found");
    expect(code(() => apiKeys.listKeys({ projectId: "prj_none" }))).toBe("not_found");
    expect(code(() => apiKeys.revokeKey("key_none"))).toBe("not_found");
  });
});

describe("authentication", () => {
  test("a valid key gives its caller", () => {
    const { apiKeys, project, organization } = setUp();
    const { key, id } = apiKeys.createKey({ projectId: project.id, name: "k", scopes: ["usage:read"] });
    const caller = apiKeys.authenticate(`Bearer ${key}`);
    expect(caller).toEqual({
      keyId: id,
      projectId: project.id,
      organizationId: organization.id,
      scopes: new Set(["usage:read"] as const),
    });
    expect(apiKeys.authenticate(`bearer  ${key}`)).toEqual(caller);
  });

  test("any other header is unauthorized", () => {
    const { apiKeys, project } = setUp();
    const { key } = apiKeys.createKey({ projectId: project.id, name: "k" });
    const elsewhere = setUp().apiKeys;
    const headers = [
      undefined,
      null,
      "",
      "Bearer",
      "Bearer ",
      key,
      `Basic ${key}`,
      `Bearer ${key} x`,
      `Bearer ${key}x`,
    ];
    for (const header of headers) expect(code(() => apiKeys.authenticate(header))).toBe("unauthorized");
    expect(code(() => elsewhere.authenticate(`Bearer ${key}`))).toBe("unauthorized");
  });

  test("the same public ID with another secret is unauthorized", () => {
    const { apiKeys, project, database } = setUp();
    const [first, second] = [1, 2].map(() => apiKeys.createKey({ projectId: project.id, name: "k" }).key);
    database.sqlite.run("UPDATE api_keys SET hash = (SELECT max(hash) FROM api_keys)");
    const refused = [first, second].map((key) => code(() => apiKeys.authenticate(`Bearer ${key}`)));
    expect(refused.filter((outcome) => outcome === "unauthorized")).toHaveLength(1);
  });

  test("a key is unauthorized as soon as it is revoked or has expired", () => {
    const { apiKeys, project, clock } = setUp();
    const revoked = apiKeys.createKey({ projectId: project.id, name: "k" });
    apiKeys.authenticate(`Bearer ${revoked.key}`);
    const at = apiKeys.revokeKey(revoked.id).revokedAt;
    expect(code(() => apiKeys.authenticate(`Bearer ${revoked.key}`))).toBe("unauthorized");
    clock.advance(1);
    expect(apiKeys.revokeKey(revoked.id).revokedAt).toBe(at);

    const expiring = apiKeys.createKey({ projectId: project.id, name: "k", expiresAt: clock.now() + DAY_MS });
    clock.advance(DAY_MS - 1);
    apiKeys.authenticate(`Bearer ${expiring.key}`);
    clock.advance(1);
    expect(code(() => apiKeys.authenticate(`Bearer ${expiring.key}`))).toBe("unauthorized");
    const late = () => apiKeys.createKey({ projectId: project.id, name: "k", expiresAt: clock.now() });
    expect(code(late)).toBe("invalid_request");
  });

  test("a disabled organization is refused at once, and the reason is given only for its own valid keys", () => {
    const { apiKeys, accounts, project, organization } = setUp();
    const { key, id } = apiKeys.createKey({ projectId: project.id, name: "k" });
    const header = `Bearer ${key}`;
    apiKeys.authenticate(header);
    accounts.disableOrganization(organization.id);
    expect(code(() => apiKeys.authenticate(header))).toBe("organization_disabled");
    apiKeys.revokeKey(id);
    expect(code(() => apiKeys.authenticate(header))).toBe("unauthorized");
  });

  test("a change by another process is seen at once when it is reported, and within a second otherwise", () => {
    const folder = mkdtempSync(join(tmpdir(), "shruti-keys-"));
    closing.push(() => rmSync(folder, { recursive: true }));
    const path = join(folder, "shruti.db");
    const { apiKeys, project, organization, clock } = setUp(openDatabase(path));
    const outside = openDatabase(path);
    closing.push(() => outside.close());
    const header = `Bearer ${apiKeys.createKey({ projectId: project.id, name: "k" }).key}`;
    const admin = createAccountService({ database: outside, clock });
    apiKeys.authenticate(header);
    admin.disableOrganization(organization.id);
    apiKeys.forgetCached();
    expect(code(() => apiKeys.authenticate(header))).toBe("organization_disabled");
    admin.enableOrganization(organization.id);
    clock.advance(1000);
    expect(code(() => apiKeys.authenticate(header))).toBeUndefined();
  });

  test("the caller has the request rate of its organization", () => {
    const { apiKeys, accounts, project, organization } = setUp();
    const header = `Bearer ${apiKeys.createKey({ projectId: project.id, name: "k" }).key}`;
    expect(apiKeys.requestsPerSecondOf(apiKeys.authenticate(header))).toBeNull();
    accounts.setOrganization(organization.id, { requestsPerSecond: 7 });
    expect(apiKeys.requestsPerSecondOf(apiKeys.authenticate(header))).toBe(7);
  });

  test("last use is written in batches, at most once a minute", () => {
    const { apiKeys, project, clock, database } = setUp();
    const { key, id } = apiKeys.createKey({ projectId: project.id, name: "k" });
    const lastUsed = () => apiKeys.listKeys().find((row) => row.id === id)?.lastUsedAt;
    const firstUse = clock.now();
    apiKeys.authenticate(`Bearer ${key}`);
    expect(lastUsed()).toBeNull();
    apiKeys.flush();
    expect(lastUsed()).toBe(firstUse);
    const changes = () => database.sqlite.query<{ n: number }, []>("SELECT total_changes() AS n").get()?.n;
    const before = changes();
    clock.advance(59_999);
    apiKeys.authenticate(`Bearer ${key}`);
    apiKeys.flush();
    expect(changes()).toBe(before);
    clock.advance(1);
    apiKeys.authenticate(`Bearer ${key}`);
    apiKeys.close();
    expect(lastUsed()).toBe(firstUse + 60_000);
  });

  test("a store that cannot be written does not delay the end of the program", () => {
    const { apiKeys, project, database } = setUp();
    const { key } = apiKeys.createKey({ projectId: project.id, name: "k" });
    apiKeys.authenticate(`Bearer ${key}`);
    database.sqlite.run("PRAGMA query_only = ON");
    expect(() => apiKeys.flush()).toThrow();
    expect(() => apiKeys.close()).not.toThrow();
  });
});
