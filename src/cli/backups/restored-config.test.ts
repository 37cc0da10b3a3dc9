import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../../config/load.ts";
import { systemClock } from "../../lib/clock.ts";
import { backUpEverything } from "../../services/backups/backups.ts";
import { findFingerprint } from "../../services/signed/appliance-key.ts";
import { openDatabase } from "../../store/database.ts";
import { configOfBackup, namedPlaces } from "./restored-config.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-restored-config-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const CONFIG = `[server]
listen = "0.0.0.0:9090"

[engine]
  decoder = "/tmp/other" # ours
workers = 2

[fleet]
nats = ["tls://nats.example:4222"]
`;

const DECODER = '  decoder = "/tmp/other" # ours';
const COMMENT = `  # Not taken from the backup, because nothing proves who made the backup:
# decoder = "/tmp/other" # ours`;

test("a config chooses a program only where the signer of its backup is known, or the admin trusts it", async () => {
  const dataDir = join(folder, "data");
  openDatabase(join(dataDir, "shruti.db")).close();
  const configPath = join(folder, "shruti.toml");
  writeFileSync(configPath, CONFIG);
  const config = { ...loadConfig(configPath, {}) };
  config.storage = { ...config.storage, data_dir: dataDir };
  const path = join(folder, "all.tar");
  const options = { config, configPath, environment: {}, clock: systemClock };
  await backUpEverything({ ...options, weights: false, secrets: false }, { file: path });
  const own = findFingerprint(dataDir);
  for (const [keys, isTrusted, decoder, notTaken] of [
    [{}, false, COMMENT, ["engine.decoder"]],
    [{ own: "another" }, false, COMMENT, ["engine.decoder"]],
    [{ own }, false, DECODER, []],
    [{ demanded: own }, false, DECODER, []],
    [{}, true, DECODER, []],
  ] as const) {
    const found = await configOfBackup(path, { keys, dataDir: "/data", isTrusted });
    expect(found.notTaken).toEqual([...notTaken]);
    expect(found.text).toContain(`[engine]\n${decoder}\nworkers`);
    writeFileSync(join(folder, "restored.toml"), found.text ?? "");
    const names = namedPlaces(loadConfig(join(folder, "restored.toml"), {}));
    expect(names).toEqual([
      { setting: "server.listen", value: "0.0.0.0:9090" },
      ...(notTaken.length > 0 ? [] : [{ setting: "engine.decoder", value: "/tmp/other" }]),
      { setting: "fleet.nats", value: "tls://nats.example:4222" },
    ]);
  }
});
