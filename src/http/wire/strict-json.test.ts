import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { inspectJson } from "./strict-json.ts";

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
    expect(inspectJson(text)).toEqual({ duplicate, depth });
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
