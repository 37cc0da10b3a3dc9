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
 * exits with 1 when there is any. Usage: `node generate.mjs DOCUMENT FOLDER` (one of the linters does not load in Bun)
 */

const [documentPath = "", folder = ""] = process.argv.slice(2);
const baseUrl = JSON.parse(readFileSync(documentPath, "utf8")).servers[0].url;
const source = readFileSync(documentPath, "utf8");
mkdirSync(folder, { recursive: true });
const complaints = [];

const redocly = await lintFromString({
  source,
  absoluteRef: documentPath,
  config: await createConfig({ extends: ["recommended"] }),
});
for (const { ruleId, message, location, severity } of redocly) {
  complaints.push(`redocly ${severity} ${ruleId}: ${message} at ${location[0]?.pointer}`);
}

const spectral = new spectralCore.Spectral();
spectral.setRuleset({ extends: [[spectralRulesets.oas, "recommended"]] });
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
  output: { target: join(folder, "orval.ts"), client: "fetch", baseUrl, mode: "single" },
});

for (const complaint of complaints) console.log(complaint);
process.exit(complaints.length === 0 ? 0 : 1);
