import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { inspectJson, nestsDeeperThan, readStrictJson, StrictJsonError } from "./strict-json.ts";

describe("inspectJson", () => {
  const TEXTS: [text: string, duplicate: string | undefined, depth: number][] = [
    ["1", undefined, 0],
    ["{}", undefined, 1],
    ['{"a":1,"b":2}', undefined, 1],
    ['{"a":1,"a":2}', "a", 1],
    ['{"a":"a","b":"a"}', undefined, 1],
    ['{"a":{"b":1},"b":{"b":1}}', undefined, 2],
    ['{"a":{"b":1,"b":1}}', "a.b", 2],
    ['[{"a":1},{"a":1}]', undefined, 2],
    ['[{"a":1},{"a":1,"a":1}]', "1.a", 2],
    ['{"a":[1,[{"b":1,"b":2}]]}', "a.1.0.b", 4],
    ['{"\\u0061":1,"a":2}', "a", 1],
    ['{"a\\"":1,"a\\"":2}', 'a"', 1],
    ['{"\\\\":1,"b":"\\\\"}', undefined, 1],
    ['{"x":"{\\"a\\":1,\\"a\\":2}"}', undefined, 1],
    ['{"a":1,"b":{"a":1},"a":2}', "a", 2],
    ['{"__proto__":1,"__proto__":2}', "__proto__", 1],
    [' { "a" : [ ] , "b" : "," } ', undefined, 2],
  ];
  test.each(TEXTS)("%s", (text, duplicate, depth) => {
    expect(inspectJson(text)).toMatchObject({ duplicate, depth });
  });

  test("finds nothing in what JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(0, 2), (value, indent) => {
        expect(inspectJson(JSON.stringify(value, null, indent)).duplicate).toBeUndefined();
      }),
    );
  });

  test("finds any name that is written twice", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 }), fc.nat(), (object, pick) => {
        const entries = Object.entries(object);
        const [name = ""] = entries[pick % entries.length] ?? [];
        const text = `${JSON.stringify(object).slice(0, -1)},${JSON.stringify(name)}:null}`;
        expect(inspectJson(text).duplicate).toBe(name);
      }),
    );
  });
});

describe("readStrictJson", () => {
  const REFUSED: [what: string, text: string][] = [
    ["no JSON", "{"],
    ["a name twice", '{"a":1,"b":{"c":1,"c":1}}'],
    ["a name twice, once with an escape", '{"a":1,"\\u0061":1}'],
    ["a number beyond the range", '{"a":1e999}'],
    ["a number that is rounded", '{"a":9007199254740993}'],
    ["a number with digits that are lost", '{"a":0.10000000000000000555}'],
    ["a number that is rounded to 0", '{"a":1e-999}'],
    ["a negative 0", '{"a":-0}'],
    ["a whole number with a fraction", '{"a":1.0}'],
    ["half a character in a text", '{"a":"\\ud800"}'],
    ["half a character in a name", '{"\\udc00":1}'],
    ["33 levels", `${"[".repeat(33)}${"]".repeat(33)}`],
    ["200,000 levels", `${"[".repeat(200_000)}${"]".repeat(200_000)}`],
  ];
  test.each(REFUSED)("refuses %s", (_what, text) => {
    expect(() => readStrictJson(text)).toThrow(StrictJsonError);
  });

  test("reads what JSON.stringify writes of whole characters", () => {
    const value = fc.jsonValue({ stringUnit: "binary", maxDepth: 5 }).map((one) => JSON.stringify(one));
    fc.assert(
      fc.property(value, fc.constantFrom(0, 2), (text, indent) => {
        const given: unknown = JSON.parse(text);
        expect(readStrictJson(JSON.stringify(given, null, indent))).toEqual(given);
      }),
    );
  });
});

test("the depth of a text is found without reading it as JSON", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value);
      const { depth } = inspectJson(text);
      expect(nestsDeeperThan(depth, text)).toBe(false);
      if (depth > 0) expect(nestsDeeperThan(depth - 1, text)).toBe(true);
    }),
  );
  for (const text of ['"[[[', "]]][[", '{"a', "\\", ""]) expect(nestsDeeperThan(2, text)).toBe(false);
});
