import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@hey-api/openapi-ts";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import spectralCore from "@stoplight/spectral-core";
import spectralParsers from "@stoplight/spectral-parsers";
import spectralRulesets from "@stoplight/spectral-rulesets";
import openapiTs, { astToString } from "openapi-typescript";
import { generate } from "orval";

/**
 * Checks an OpenAPI document with two linters and makes three clients of it. Prints one line for each complaint, and
 * exits with 1 when there is any. Usage: `bun generate.ts DOCUMENT FOLDER`
 */

const [documentPath = "", folder = ""] = process.argv.slice(2);
const source = readFileSync(documentPath, "utf8");
mkdirSync(folder, { recursive: true });
const complaints: string[] = [];

const redocly = await lintFromString({
  source,
  absoluteRef: documentPath,
  config: await createConfig({ extends: ["recommended"] }),
});
for (const { ruleId, message, location, severity } of redocly) {
  complaints.push(`redocly ${severity} ${ruleId}: ${message} at ${location[0]?.pointer}`);
}

const spectral = new spectralCore.Spectral();
spectral.setRuleset(spectralCore.Ruleset ? { extends: [[spectralRulesets.oas, "recommended"]] } : {});
const found = await spectral.run(new spectralCore.Document(source, spectralParsers.Json, documentPath));
for (const { code, message, path, severity } of found) {
  complaints.push(`spectral ${severity} ${code}: ${message} at ${path.join("/")}`);
}

const types = await openapiTs(source);
writeFileSync(join(folder, "openapi-typescript.ts"), astToString(types));
await createClient({
  input: documentPath,
  output: { path: join(folder, "hey-api") },
  logs: { level: "silent" },
});
await generate({
  input: { target: documentPath },
  output: { target: join(folder, "orval.ts"), client: "fetch", mode: "single" },
});

for (const complaint of complaints) console.log(complaint);
process.exit(complaints.length === 0 ? 0 : 1);
