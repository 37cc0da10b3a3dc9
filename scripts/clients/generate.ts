import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { openTestApp } from "../../src/testing/kits/open-test-app.ts";
import { type Json, readModel } from "./client-model.ts";
import { renderPython } from "./python.ts";
import { renderTypeScript } from "./typescript.ts";

/**
 * Writes the generated part of the clients in docs/clients from the OpenAPI document of this source tree:
 * `bun scripts/clients/generate.ts`. A test compares the files with what this makes.
 */

const ROOT = join(import.meta.dirname, "../..");
const PYTHON = "docs/clients/python/shruti_client";
const TYPESCRIPT = "docs/clients/typescript/src";

/** Makes the generated files. Returns their contents by their paths from the repository's root. */
export async function generateClients(): Promise<Map<string, string>> {
  const app = await openTestApp();
  try {
    const model = readModel((await (await app.fetch("/openapi.json")).json()) as Json);
    const [typescript, python] = [renderTypeScript(model), renderPython(model)];
    return new Map([
      [`${TYPESCRIPT}/types.ts`, typescript.types],
      [`${TYPESCRIPT}/operations.ts`, typescript.operations],
      [`${PYTHON}/types.py`, python.types],
      [`${PYTHON}/operations.py`, python.operations],
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
