import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { openTestApp } from "../../src/testing/kits/open-test-app.ts";
import { type Json, readModel } from "./client-model.ts";
import { renderTypeScript } from "./typescript.ts";

/**
 * Writes the generated part of the clients in docs/clients from the OpenAPI document of this source tree:
 * `bun scripts/clients/generate.ts`. A test compares the files with what this makes.
 */

const ROOT = join(import.meta.dirname, "../..");
const TYPESCRIPT = "docs/clients/typescript/src";

/** Makes the generated files. Returns their contents by their paths from the repository's root. */
export async function generateClients(): Promise<Map<string, string>> {
  const app = await openTestApp();
  try {
    const model = readModel((await (await app.fetch("/openapi.json")).json()) as Json);
    const { types, operations } = renderTypeScript(model);
    return new Map([
      [`${TYPESCRIPT}/types.ts`, types],
      [`${TYPESCRIPT}/operations.ts`, operations],
    ]);
  } finally {
    await app.close();
  }
}

if (import.meta.main) {
  for (const [path, content] of await generateClients()) {
    writeFileSync(join(ROOT, path), content);
    console.log(path);
  }
}
