import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { resolveConfigPath } from "./paths.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-paths-"));
const [etc, work] = [join(folder, "etc"), join(folder, "work")] as const;
mkdirSync(etc);
mkdirSync(join(work, "data"), { recursive: true });
afterAll(() => rmSync(folder, { recursive: true }));

const resolved = (value: string) =>
  resolveConfigPath("storage.data_dir", value, join(etc, "shruti.toml"), work);

test("a relative path belongs to the folder of the config file", () => {
  expect(resolved("new")).toEqual({ path: join(etc, "new") });
  expect(resolved("../new")).toEqual({ path: join(folder, "new") });
  expect(resolved("/var/lib/shruti")).toEqual({ path: "/var/lib/shruti" });
});

test("what an earlier version found from the working directory is still used, with a warning, until the other exists", () => {
  const { path, warning } = resolved("data");
  expect(path).toBe(join(work, "data"));
  expect(warning).toStartWith(`storage.data_dir = "data" means ${join(etc, "data")}, because`);
  expect(warning).toContain(`so ${join(work, "data")} is used, as by earlier versions`);
  mkdirSync(join(etc, "data"));
  expect(resolved("data")).toEqual({ path: join(etc, "data") });
});
