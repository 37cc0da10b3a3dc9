import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { generateClients } from "./generate.ts";

const ROOT = join(import.meta.dirname, "../..");

test("the generated files of the clients are those of the OpenAPI document; `bun scripts/clients/generate.ts` writes them", async () => {
  for (const [path, content] of await generateClients())
    expect([path, readFileSync(join(ROOT, path), "utf8")]).toEqual([path, content]);
});
