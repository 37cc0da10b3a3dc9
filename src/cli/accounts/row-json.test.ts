import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TSchema, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import * as wire from "../../http/wire/console.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";
import { begin, clientOf, FOUR_CHUNKS } from "../../testing/kits/scheduler-kit.ts";

/** The rows that commands print as JSON have the shapes of the console's, which the console's requests are checked with. */

let testApp: TestApp;
let environment: Record<string, string>;
beforeAll(async () => {
  testApp = await openTestApp();
  const id = await begin(testApp, FOUR_CHUNKS);
  await clientOf(testApp).finished(id);
  const { database, services } = testApp.app;
  const owner = { organizationId: testApp.organization.id, projectId: testApp.project.id };
  const endpoint = services.webhooks.register(owner, { url: "https://93.184.216.34/hook" });
  database.sqlite.run(
    "INSERT INTO events (id, transcription_id, endpoint_id, type, body, created_at) VALUES ('evt_1', ?, ?, 'transcription.completed', '{}', 1)",
    [id, endpoint.id],
  );
  database.sqlite.run(
    "INSERT INTO deliveries (event_id, endpoint_id, state, attempts, failed_at) VALUES ('evt_1', ?, 'failed', 8, 2)",
    [endpoint.id],
  );
  const config = join(testApp.directory, "shruti.toml");
  writeFileSync(config, `[storage]\ndata_dir = ${JSON.stringify(testApp.directory)}\n`);
  environment = { SHRUTI_CONFIG: config };
});
afterAll(async () => {
  const { directory } = testApp;
  await testApp.close();
  rmSync(directory, { recursive: true, force: true });
});

const credit = wire.Organization.properties.credit;
const COMMANDS: [command: () => string[], schema: TSchema][] = [
  [() => ["orgs", "list"], Type.Array(wire.Organization)],
  [() => ["orgs", "show", testApp.organization.id], wire.Organization],
  [() => ["projects", "list"], Type.Array(wire.Project)],
  [() => ["keys", "list"], Type.Array(wire.Key)],
  [() => ["credit", "ledger", "--org", testApp.organization.id], Type.Array(wire.LedgerEntry)],
  [
    () => ["credit", "grant", "--org", testApp.organization.id, "--paise", "5"],
    Type.Object({ ...wire.LedgerEntry.properties, credit }, { additionalProperties: false }),
  ],
  [() => ["webhooks", "list"], Type.Array(wire.ConsoleEndpoint)],
  [() => ["webhooks", "deliveries"], Type.Array(wire.Delivery)],
  [() => ["transcriptions", "list"], Type.Array(wire.AdminTranscription)],
  [() => ["uploads", "list"], Type.Array(wire.AdminUpload)],
  [() => ["models", "list"], Type.Array(wire.InstalledModelRow)],
  [() => ["audit", "list"], Type.Array(wire.AuditEntry)],
];

test("commands print rows in the shapes of the console", async () => {
  for (const [command, schema] of COMMANDS) {
    const argv = command();
    const { status, out, err } = await runCaptured([...argv, "--json"], environment, testApp.clock);
    expect({ argv, status, err }).toEqual({ argv, status: 0, err: "" });
    const printed = JSON.parse(out) as unknown;
    if (Array.isArray(printed)) expect(printed.length, argv.join(" ")).toBeGreaterThan(0);
    const [fault] = [...Value.Errors(schema, printed)];
    expect({ argv, fault: fault && `${fault.path} ${fault.message}` }).toEqual({ argv, fault: undefined });
  }
});
