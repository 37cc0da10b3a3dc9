import { expect, test } from "bun:test";
import { CONFIG_SCHEMA, SECRET_SETTINGS, type Setting } from "./schema.ts";

test("a text that is called a token, secret or password is marked as a secret, unless it names a file", () => {
  const called = Object.entries(CONFIG_SCHEMA).flatMap(([section, settings]) =>
    Object.entries<Setting>(settings).flatMap(([name, setting]) =>
      setting.type === "text" && setting.isPath !== true && /token|secret|password|(^|_)key$/.test(name)
        ? [`${section}.${name}`]
        : [],
    ),
  );
  expect(called.length).toBeGreaterThan(0);
  expect(called.filter((name) => !SECRET_SETTINGS.includes(name))).toEqual([]);
});
