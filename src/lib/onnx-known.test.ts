import { describe, expect, test } from "bun:test";
import type { OnnxAttribute, OnnxGraph, OnnxNode, OnnxTensor } from "./onnx-edit.ts";
import { attributeOf } from "./onnx-edit.ts";
import { type Known, knownValues } from "./onnx-known.ts";
import { leaveOutMasks, writeSizes } from "./onnx-masks.ts";
import { FLOAT, INT64, Network, nodeOf } from "./onnx-network.ts";

const INT32 = 6;

const whole = (name: string, dims: number[], numbers: (number | bigint)[]): OnnxTensor => ({
  ...{ name, dims, type: INT64, values: [], isElsewhere: false },
  raw: new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer),
});
const tensorAttribute = (tensor: OnnxTensor): OnnxAttribute => ({ name: "value", encoded: [], tensor });

/** A graph that reads features and their number, with some constants and nodes. */
function graphOf(tensors: OnnxTensor[], nodes: OnnxNode[]): OnnxGraph {
  return {
    nodes,
    tensors: new Map(tensors.map((tensor) => [tensor.name, tensor])),
    ports: new Set(["features", "length", "out"]),
    inputs: [
      { name: "features", type: FLOAT, shape: [1, 80, "frames"] },
      { name: "length", type: INT64, shape: [1] },
    ],
    ...{ isOpen: false, rest: [] },
    read: (part) => Uint8Array.from(part as Uint8Array),
  };
}

/** What is known of the value `out` of a node. */
function known(tensors: OnnxTensor[], ...nodes: OnnxNode[]): Known | undefined {
  return knownValues(graphOf(tensors, nodes))?.get("out");
}

describe("what is known of values before a network runs", () => {
  const cases: [name: string, found: Known | undefined, expected: object][] = [
    [
      "elements of two values that are repeated along different dimensions are not paired",
      known([whole("a", [2, 1], [1, 2]), whole("b", [1, 2], [1, 2])], nodeOf("Equal", ["a", "b"], ["out"])),
      { dims: [2, 2], list: undefined, every: undefined },
    ],
    [
      "elements of one list and one number",
      known([whole("a", [2], [1, 2]), whole("b", [], [2])], nodeOf("Equal", ["a", "b"], ["out"])),
      { dims: [2], list: [false, true] },
    ],
    [
      "a constant of a shape whose number cannot be read is nothing, not 0",
      known(
        [whole("a", [1], [3])],
        nodeOf(
          "ConstantOfShape",
          ["a"],
          ["out"],
          [
            tensorAttribute({
              name: "",
              dims: [1],
              type: INT32,
              values: [],
              isElsewhere: false,
              raw: new Uint8Array(4),
            }),
          ],
        ),
      ),
      { dims: [3], every: undefined, list: undefined },
    ],
    [
      "without a number it is 0",
      known([whole("a", [1], [3])], nodeOf("ConstantOfShape", ["a"], ["out"])),
      { dims: [3], every: 0, list: [0, 0, 0] },
    ],
    [
      "a part of a list from before its beginning is all of it",
      known(
        [
          whole("a", [3], [5, 6, 7]),
          whole("from", [1], [-10]),
          whole("to", [1], [100]),
          whole("axes", [1], [0]),
        ],
        nodeOf("Slice", ["a", "from", "to", "axes"], ["out"]),
      ),
      { list: [5, 6, 7] },
    ],
    [
      "a list that is too long is not kept",
      known(
        [whole("a", [40], Array(40).fill(1))],
        nodeOf("Concat", ["a", "a"], ["out"], [attributeOf("axis", 0)]),
      ),
      { dims: [80], list: undefined },
    ],
    [
      "parts that are not equally long have no size",
      known(
        [whole("a", [5], [1, 2, 3, 4, 5])],
        nodeOf("Split", ["a"], ["out", "more"], [attributeOf("num_outputs", 2)]),
      ),
      { dims: [undefined] },
    ],
    [
      "numbers up to a negative limit are not counted",
      known(
        [whole("from", [], [0]), whole("to", [], [-4]), whole("by", [], [1])],
        nodeOf("Range", ["from", "to", "by"], ["out"]),
      ) ?? {},
      { dims: undefined },
    ],
    [
      "a zero keeps a dimension",
      known([whole("a", [1, 2], [1, 2]), whole("to", [2], [0, 2])], nodeOf("Reshape", ["a", "to"], ["out"])),
      { dims: [1, 2] },
    ],
    [
      "and does not where zeros are allowed",
      known(
        [whole("a", [1, 2], [1, 2]), whole("to", [2], [0, 2])],
        nodeOf("Reshape", ["a", "to"], ["out"], [attributeOf("allowzero", 1)]),
      ),
      { dims: undefined },
    ],
    [
      "silence along named dimensions is not looked at",
      known(
        [whole("a", [1, 5], [1, 2, 3, 4, 5]), whole("around", [2], [1, 1]), whole("axes", [1], [0])],
        nodeOf("Pad", ["a", "around", "", "axes"], ["out"]),
      ),
      { dims: [undefined, undefined] },
    ],
  ];
  test.each(cases)("%s", (_name, found, expected) => {
    expect({ dims: undefined, list: undefined, every: undefined, ...found }).toMatchObject(expected);
  });

  test("a condition that is not always the same leaves what it chooses from", () => {
    const graph = graphOf(
      [whole("a", [2, 1], [1, 2]), whole("b", [1, 2], [1, 2])],
      [
        nodeOf("Equal", ["a", "b"], ["is"]),
        nodeOf("Where", ["is", "a", "b"], ["chosen"]),
        nodeOf("Relu", ["chosen"], ["out"]),
      ],
    );
    expect(leaveOutMasks(new Network(graph), knownValues(graph) ?? new Map())).toBe(false);
  });

  test("the end of all lists is not written as a number that it is not", () => {
    const end = whole("end", [], [0x7fffffffffffffffn]);
    const graph = graphOf(
      [end, whole("axes", [1], [0])],
      [
        nodeOf("Unsqueeze", ["end", "axes"], ["ends"]),
        nodeOf("Slice", ["length", "axes", "ends", "axes"], ["out"]),
      ],
    );
    expect(writeSizes(new Network(graph), knownValues(graph) ?? new Map())).toBe(false);
    expect(graph.nodes[1]?.inputs[2]).toBe("ends");
  });
});
