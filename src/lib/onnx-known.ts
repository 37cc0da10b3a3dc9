import type { OnnxGraph, OnnxNode, OnnxTensor } from "./onnx-edit.ts";
import { ONNX_BOOL, ONNX_FLOAT, ONNX_INT64 } from "./onnx-file.ts";
import { attribute, countOf, numbersOf } from "./onnx-network.ts";
import type { Size } from "./onnx-sizes.ts";
import * as sizes from "./onnx-sizes.ts";

/*
 * What is known of the values of a network before it runs, where it is given one sound at a time and its true length: their
 * dimensions, and the content of those that hold sizes, or masks of padding. Nothing is guessed: what does not follow is left out.
 */

/** A number, or the truth of a mask. */
type Content = Size | boolean;
/** What is known of a value. */
export type Known = {
  type?: number | undefined;
  /** Its dimensions; undefined within: that one is not known. */
  dims?: (Size | undefined)[] | undefined;
  /** What it contains, in order, where that is little; undefined within: that one is not known. */
  list?: readonly (Content | undefined)[] | undefined;
  /** What each of its elements is. */
  every?: Content | undefined;
  /** Its elements are whole numbers from 0 that are less than this. */
  below?: Size | undefined;
};

/** Types whose numbers are exact up to any size of a sound. */
const FLOATS = new Set<number | undefined>([ONNX_FLOAT, 11]);
const INTEGERS = new Set<number | undefined>([ONNX_INT64, 6]);

/** Contents with more elements than this are not kept. */
const MOST_ELEMENTS = 64;

/**
 * Returns what is known of the values of a graph that reads features (one sound × bins × frames) and the number of their frames.
 *
 * @returns undefined: the graph reads something else
 */
export function knownValues(graph: OnnxGraph): Map<string, Known> | undefined {
  const [features, length, ...others] = graph.inputs.filter(({ name }) => !graph.tensors.has(name));
  if (features?.type !== ONNX_FLOAT || features.shape.length !== 3 || others.length > 0) return;
  if (length?.type !== ONNX_INT64 || length.shape.length !== 1) return;
  const bins = features.shape[1];
  const known = new Map<string, Known>();
  known.set(features.name, {
    type: ONNX_FLOAT,
    dims: [1, typeof bins === "number" ? bins : undefined, sizes.FRAMES],
  });
  known.set(length.name, withEvery({ type: ONNX_INT64, dims: [1], list: [sizes.FRAMES] }));
  for (const tensor of graph.tensors.values()) known.set(tensor.name, constant(graph, tensor));
  for (const node of graph.nodes) {
    const results = node.domain === "" ? RULES[node.kind]?.(node, inputsOf(known, node), graph) : undefined;
    for (const [place, name] of node.outputs.entries()) {
      const result = results?.[place];
      if (result) known.set(name, withEvery(bounded(result)));
    }
  }
  return known;
}

type Rule = (node: OnnxNode, inputs: Known[], graph: OnnxGraph) => Known[] | undefined;

const inputsOf = (known: Map<string, Known>, node: OnnxNode) =>
  node.inputs.map((name) => known.get(name) ?? {});

function constant(graph: OnnxGraph, tensor: OnnxTensor): Known {
  const numbers = countOf(tensor) <= MOST_ELEMENTS ? numbersOf(graph, tensor) : undefined;
  const list = tensor.type === ONNX_BOOL ? numbers?.map((each) => each !== 0) : numbers;
  return withEvery({ type: tensor.type, dims: [...tensor.dims], list });
}

/** What a rule may say: no list that does not have as many elements as the dimensions say, or too many; no endless dimensions. */
function bounded(result: Known): Known {
  const { dims, list } = result;
  if (dims && dims.length > MOST_ELEMENTS) return { type: result.type };
  const count = elementsOf(dims);
  return list?.length === count && count <= MOST_ELEMENTS ? result : { ...result, list: undefined };
}

/** How many elements a value has; endlessly many where that is not known. */
const elementsOf = (dims: Known["dims"]): number =>
  dims?.every((size) => typeof size === "number")
    ? countOf({ dims: dims as number[] })
    : Number.POSITIVE_INFINITY;

/** Adds what each element is where all of them are the same. */
function withEvery(known: Known): Known {
  const [first, ...others] = known.list ?? [];
  if (known.every !== undefined || first === undefined) return known;
  if (!others.every((other) => other !== undefined && isEqual(first, other))) return known;
  return { ...known, every: first };
}

const isEqual = (a: Content, b: Content) =>
  typeof a === "boolean" || typeof b === "boolean" ? a === b : sizes.isSame(a, b);
/** The sizes that a value contains, where it contains sizes. */
const sizesOf = ({ list }: Known = {}): (Size | undefined)[] | undefined =>
  list?.every((each) => typeof each !== "boolean") ? (list as (Size | undefined)[]) : undefined;
/** The numbers that a value contains, if it always contains the same. */
export const constantsOf = (known: Known | undefined): number[] | undefined =>
  known?.list?.every((each) => typeof each === "number") ? (known.list as number[]) : undefined;
const oneOf = (known: Known | undefined) => (known?.list?.length === 1 ? known.list[0] : undefined);
/** What is kept of a value whose elements stay and get other places. */
const moved = ({ type, every, below }: Known): Known => ({ type, every, below });
/** A dimension, counted from the end where it is negative. */
const axisOf = (axis: number, rank: number) => (axis < 0 ? axis + rank : axis);

/** The dimensions of a result where each of some values is repeated along dimensions of 1. */
function broadcast(...all: Known[]): Known["dims"] {
  const dims = all.map((each) => each.dims);
  const rank = Math.max(...dims.map((each) => each?.length ?? Number.NaN));
  if (Number.isNaN(rank)) return undefined;
  return Array.from({ length: rank }, (_, place) => {
    const at = dims.map((each) => ((each?.length ?? 0) < rank - place ? 1 : each?.at(place - rank)));
    const [first, ...others] = at.filter((size) => size !== 1);
    if (at.every((size) => size === 1)) return 1;
    return others.every((size) => sizes.isSame(first, size)) ? first : undefined;
  });
}

/** Whether a result has exactly the dimensions of a value, all of which are known. */
export const hasDimsOf = (result: Known | undefined, value: Known | undefined): boolean =>
  result?.dims?.length === value?.dims?.length &&
  (result?.dims?.every((size, at) => sizes.isSame(size, value?.dims?.[at])) ?? false);

type Operation = (a: Content, b: Content) => Content | undefined;
const onSizes =
  (work: (a: Size, b: Size) => Content | undefined): Operation =>
  (a, b) =>
    typeof a === "boolean" || typeof b === "boolean" ? undefined : work(a, b);

/** Rule of an operation on each element of two values. */
function elementwise(work: Operation, type?: number): Rule {
  return (_node, [a = {}, b = {}]) => {
    const result: Known = { type: type ?? a.type, dims: broadcast(a, b) };
    if (a.every !== undefined && b.every !== undefined) result.every = work(a.every, b.every);
    const [left, right] = [a.list, b.list];
    // Elements at the same place belong together only where neither value is repeated, or one value is one element.
    if (!left || !right) return [result];
    if (![a, b].every((each) => each.list?.length === 1 || hasDimsOf(result, each))) return [result];
    result.list = Array.from({ length: Math.max(left.length, right.length) }, (_, at) => {
      const [x, y] = [left[left.length === 1 ? 0 : at], right[right.length === 1 ? 0 : at]];
      return x === undefined || y === undefined ? undefined : work(x, y);
    });
    return [result];
  };
}

/** Rule of an operation on each element of a value. */
const unary =
  (work: (a: Content, node: OnnxNode, known: Known) => Content | undefined = () => undefined): Rule =>
  (node, [a = {}]) => {
    const list = a.list?.map((each) => (each === undefined ? undefined : work(each, node, a)));
    return [
      {
        ...{ type: a.type, dims: a.dims },
        every: a.every === undefined ? undefined : work(a.every, node, a),
        list,
      },
    ];
  };

/** Division of whole numbers cuts off what remains. */
const divide: Rule = (node, [a = {}, b = {}], graph) =>
  elementwise(
    onSizes((x, y) => {
      const quotient = sizes.quotientOf(x, y);
      if (quotient === undefined || FLOATS.has(a.type)) return quotient;
      return INTEGERS.has(a.type) ? sizes.wholeOf(quotient) : undefined;
    }),
  )(node, [a, b], graph);

const isLess = (a: Size, b: Size) =>
  typeof a === "number" && typeof b === "number" ? a < b : sizes.isAtMost(b, a) ? false : undefined;

/** The comparison of a mask: numbers from 0 that are less than a length. */
const less: Rule = (node, [a = {}, b = {}], graph) => {
  const [result = {}] = elementwise(onSizes(isLess), ONNX_BOOL)(node, [a, b], graph) ?? [];
  const isBelow = a.below !== undefined && typeof b.every !== "boolean" && b.every !== undefined;
  return [isBelow && sizes.isAtMost(a.below as Size, b.every as Size) ? { ...result, every: true } : result];
};

const equal = onSizes((a, b) => {
  if (sizes.isSame(a, b)) return true;
  const [number, other] = typeof a === "number" ? [a, b] : [b, a];
  const isBelowAll = typeof number === "number" && number < sizes.leastOf(other);
  return isBelowAll || (typeof a === "number" && typeof b === "number") ? false : undefined;
});

const cast: Rule = (node, [a = {}]) => {
  const to = attribute(node, "to")?.number;
  const work = (each: Content): Content | undefined => {
    if (to === ONNX_BOOL)
      return typeof each === "boolean" ? each : typeof each === "number" ? each !== 0 : undefined;
    if (typeof each === "boolean") return each ? 1 : 0;
    if (FLOATS.has(to)) return each;
    return INTEGERS.has(to) ? sizes.wholeOf(each) : undefined;
  };
  const [result = {}] = unary(work)(node, [a], undefined as never) ?? [];
  return [{ ...result, type: to, below: a.below }];
};

/** What a value contains that has some elements of one value, and some of another one. */
function mixed(condition: Known, a: Known, b: Known): Known["list"] {
  return condition.list?.map((isA, at) => {
    const from = isA === true ? a : b;
    if (typeof isA !== "boolean") return undefined;
    return hasDimsOf(condition, from) ? from.list?.[at] : from.every;
  });
}

const where: Rule = (_node, [condition = {}, a = {}, b = {}]) => {
  const dims = broadcast(condition, a, b);
  if (typeof condition.every !== "boolean") {
    const result: Known = { type: a.type, dims };
    return [hasDimsOf(result, condition) ? { ...result, list: mixed(condition, a, b) } : result];
  }
  const chosen = condition.every ? a : b;
  const result: Known = { ...moved(chosen), dims };
  return [hasDimsOf(result, chosen) ? { ...result, list: chosen.list } : result];
};

const shape: Rule = (node, [{ dims } = {}]) => {
  if (!dims) return undefined;
  const [from, to] = ["start", "end"].map((name) => attribute(node, name)?.number);
  const part = dims.slice(
    axisOf(from ?? 0, dims.length),
    to === undefined ? dims.length : axisOf(to, dims.length),
  );
  return [{ type: ONNX_INT64, dims: [part.length], list: part }];
};

const gather: Rule = (node, [data = {}, at = {}]) => {
  const places = constantsOf(at);
  const parts = data.list;
  if (!parts || !places || data.dims?.length !== 1 || (attribute(node, "axis")?.number ?? 0) !== 0)
    return undefined;
  return [
    { type: data.type, dims: at.dims, list: places.map((place) => parts[axisOf(place, parts.length)]) },
  ];
};

/** Reads dimensions from the second input, or from an attribute as in older files. */
const axesOf = (node: OnnxNode, input: Known | undefined) =>
  input ? constantsOf(input) : attribute(node, "axes")?.numbers;

const unsqueeze: Rule = (node, [a = {}, axes]) => {
  const places = axesOf(node, axes);
  if (!places || !a.dims) return [moved(a)];
  const rank = a.dims.length + places.length;
  const ones = new Set(places.map((place) => axisOf(place, rank)));
  let next = 0;
  const dims = Array.from({ length: rank }, (_, at) => (ones.has(at) ? 1 : a.dims?.[next++]));
  return [{ ...a, dims }];
};

const squeeze: Rule = (node, [a = {}, axes]) => {
  const places = axesOf(node, axes);
  if (!places || !a.dims) return [moved(a)];
  const gone = new Set(places.map((place) => axisOf(place, a.dims?.length ?? 0)));
  return [{ ...a, dims: a.dims.filter((_, at) => !gone.has(at)) }];
};

const concat: Rule = (node, inputs) => {
  const axis = attribute(node, "axis")?.number ?? 0;
  const [first = {}] = inputs;
  const lists = inputs.map(({ list }) => list);
  if (axis === 0 && inputs.every(({ dims }) => dims?.length === 1) && lists.every((list) => list)) {
    const list = lists.flatMap((each) => [...(each ?? [])]);
    return [{ type: first.type, dims: [list.length], list }];
  }
  if (!first.dims || inputs.some(({ dims }) => dims?.length !== first.dims?.length))
    return [{ type: first.type }];
  const dims = first.dims.map((size, at) => {
    const all = inputs.map((each) => each.dims?.[at]);
    if (at !== axisOf(axis, first.dims?.length ?? 0)) return size;
    return all.reduce(
      (sum, each) => (sum === undefined || each === undefined ? undefined : sizes.sumOf(sum, each)),
      0,
    );
  });
  return [{ type: first.type, dims }];
};

/** The dimensions that a value gets: 0 keeps one, and -1 is what remains. */
function reshaped(from: Known["dims"], to: readonly (Size | undefined)[]): Known["dims"] {
  const dims: Known["dims"] = to.map((size, at) => (size === 0 ? from?.[at] : size));
  const open = to.indexOf(-1);
  if (open < 0) return dims;
  dims[open] = undefined;
  if (!from || from.includes(undefined) || dims.some((size, at) => size === undefined && at !== open))
    return dims;
  const others = dims.filter((_, at) => at !== open) as Size[];
  const left = (from as Size[]).slice();
  let [product, divisor] = [1, 1];
  for (const size of others) {
    const same = left.findIndex((each) => sizes.isSame(each, size));
    if (same >= 0) left.splice(same, 1);
    else if (typeof size === "number") divisor *= size;
    else return dims;
  }
  const rest = left.filter((size) => typeof size === "object");
  for (const size of left) if (typeof size === "number") product *= size;
  if (rest.length === 0) dims[open] = product / divisor;
  else if (rest.length === 1 && product === divisor) dims[open] = rest[0];
  return dims;
}

const reshape: Rule = (node, [a = {}, to]) => {
  // Where zeros are allowed they are no dimensions that stay.
  const target = attribute(node, "allowzero")?.number ? undefined : sizesOf(to);
  if (!target) return [moved(a)];
  return [{ ...a, dims: reshaped(a.dims, target) }];
};

const expand: Rule = (_node, [a = {}, to]) => {
  const target = sizesOf(to);
  return [{ ...moved(a), dims: target && broadcast(a, { dims: [...target] }) }];
};

const tile: Rule = (_node, [a = {}, repeats]) => {
  const times = sizesOf(repeats);
  const dims =
    times &&
    a.dims?.map((size, at) => {
      const by = times[at];
      return size === undefined || by === undefined ? undefined : sizes.productOf(size, by);
    });
  return [{ ...moved(a), dims }];
};

const constantOfShape: Rule = (node, [to], graph) => {
  const dims = sizesOf(to);
  const value = attribute(node, "value")?.tensor;
  const { type, every }: Known = value ? constant(graph, value) : { type: ONNX_FLOAT, every: 0 };
  const count = elementsOf(dims);
  return [
    {
      type,
      dims: dims && [...dims],
      every,
      list: count <= MOST_ELEMENTS && every !== undefined ? Array(count).fill(every) : undefined,
    },
  ];
};

/** Whether a size is a whole number from 0 for sounds of every length. */
const isCount = (size: Size): boolean => sizes.leastOf(size) >= 0 && sizes.isSame(sizes.wholeOf(size), size);

const range: Rule = (_node, [from, to, step]) => {
  const [first, last, each] = [oneOf(from), oneOf(to), oneOf(step)];
  if (first !== 0 || each !== 1 || last === undefined || typeof last === "boolean") return undefined;
  // A limit that may be negative or between two whole numbers has another count.
  if (!isCount(last)) return undefined;
  return [{ type: to?.type, dims: [last], below: last }];
};

const transpose: Rule = (node, [a = {}]) => {
  const order = attribute(node, "perm")?.numbers;
  const dims = order?.map((at) => a.dims?.[at]);
  const result: Known = { ...moved(a), dims: a.dims && dims };
  const [rows, columns] = a.dims ?? [];
  if (!a.list || `${order}` !== "1,0" || typeof rows !== "number" || typeof columns !== "number")
    return [result];
  const list = a.list.map((_, at) => a.list?.[(at % rows) * columns + Math.floor(at / rows)]);
  return [{ ...result, list }];
};

/** Rows of a small value in reverse, as exporters write it for the numbers of `Pad`, or a part of a list. */
function partOfList({ list, dims }: Known, from: number, to: number, step: number): Known["list"] {
  const count = dims?.[0];
  if (!list || typeof count !== "number" || count === 0) return undefined;
  const wide = list.length / count;
  const rows = Array.from({ length: count }, (_, at) => list.slice(at * wide, (at + 1) * wide));
  const bound = (at: number) => Math.max(step < 0 ? -1 : 0, Math.min(count, at < 0 ? at + count : at));
  if (step === 1) return rows.slice(bound(from), bound(to)).flat();
  return step === -1 && bound(from) === count - 1 && to < -count ? rows.reverse().flat() : undefined;
}

/** How many of some elements a part has. */
function cutSize(size: Size | undefined, from: Size | undefined, to: Size | undefined): Size | undefined {
  if (size === undefined || from === undefined || to === undefined || sizes.leastOf(from) < 0)
    return undefined;
  if (Number(to) >= 2 ** 31 - 1)
    return sizes.isAtMost(from, size) ? sizes.differenceOf(size, from) : undefined;
  const isInside = sizes.leastOf(to) >= 0 && sizes.isAtMost(to, size) && sizes.isAtMost(from, to);
  return isInside ? sizes.differenceOf(to, from) : undefined;
}

const slice: Rule = (_node, [a = {}, from, to, along, by]) => {
  const axes = along ? constantsOf(along) : a.dims?.map((_, at) => at);
  const steps = by ? constantsOf(by) : axes?.map(() => 1);
  const [starts = [], ends = []] = [sizesOf(from), sizesOf(to)];
  if (!axes || !steps || !a.dims) return [{ ...moved(a), below: undefined }];
  const result: Known = { ...moved(a), below: undefined, dims: [...a.dims] };
  for (const [n, axis] of axes.entries()) {
    const at = axisOf(axis, a.dims.length);
    if (result.dims) result.dims[at] = steps[n] === 1 ? cutSize(a.dims[at], starts[n], ends[n]) : undefined;
  }
  const [start, end, step = 1] = [starts[0], ends[0], steps[0]];
  if (axes.length !== 1 || axes[0] !== 0 || typeof start !== "number" || typeof end !== "number")
    return [result];
  const list = partOfList(a, start, end, step);
  if (!list || !result.dims) return [result];
  const rest = a.dims.slice(1) as number[];
  result.dims[0] = list.length / countOf({ dims: rest });
  return [{ ...result, list }];
};

const split: Rule = (node, [a = {}]) => {
  const parts = node.outputs.length;
  const axis = axisOf(attribute(node, "axis")?.number ?? 0, a.dims?.length ?? 0);
  const dims = a.dims?.map((size, at) =>
    at !== axis ? size : typeof size === "number" && size % parts === 0 ? size / parts : undefined,
  );
  const isEven = attribute(node, "split") === undefined && node.inputs.length < 2;
  return isEven || attribute(node, "num_outputs")
    ? node.outputs.map(() => ({ type: a.type, dims: dims && [...dims] }))
    : undefined;
};

const pad: Rule = (_node, [a = {}, around, , axes]) => {
  const more = axes ? undefined : constantsOf(around);
  const dims = a.dims?.map((size, at) => {
    const added = (more?.[at] ?? Number.NaN) + (more?.[at + (a.dims?.length ?? 0)] ?? Number.NaN);
    return size === undefined || Number.isNaN(added) ? undefined : sizes.sumOf(size, added);
  });
  return [{ type: a.type, dims }];
};

const convolution: Rule = (node, [a = {}, { dims: weight } = {}]) => {
  if (!a.dims || !weight || attribute(node, "auto_pad")) return undefined;
  const [pads, strides, dilations] = ["pads", "strides", "dilations"].map(
    (name) => attribute(node, name)?.numbers,
  );
  const spatial = weight.length - 2;
  const dims = a.dims.map((size, at) => {
    if (at < 2) return at === 0 ? size : weight[0];
    const [n, taps] = [at - 2, weight[at]];
    if (size === undefined || typeof taps !== "number") return undefined;
    const around = (pads?.[n] ?? 0) + (pads?.[n + spatial] ?? 0) - (dilations?.[n] ?? 1) * (taps - 1) - 1;
    const wide = sizes.sumOf(size, around);
    const steps = wide === undefined ? undefined : sizes.quotientOf(wide, strides?.[n] ?? 1);
    const whole = steps === undefined ? undefined : sizes.floorOf(steps);
    return whole === undefined ? undefined : sizes.sumOf(whole, 1);
  });
  return [{ dims }];
};

const matrices: Rule = (_node, [a = {}, b = {}]) => {
  if (!a.dims || !b.dims || a.dims.length < 2 || b.dims.length < 2) return undefined;
  const around = broadcast({ dims: a.dims.slice(0, -2) }, { dims: b.dims.slice(0, -2) });
  return [{ dims: around && [...around, a.dims.at(-2), b.dims.at(-1)] }];
};

const means: Rule = (node, [a = {}, axes]) => {
  const places = axesOf(node, axes);
  if (!places || !a.dims || attribute(node, "keepdims")?.number === 0) return undefined;
  const rank = a.dims.length;
  const gone = new Set(places.map((place) => axisOf(place, rank)));
  return [{ type: a.type, dims: a.dims.map((size, at) => (gone.has(at) ? 1 : size)) }];
};

const rounded: Rule = (_node, [a = {}]) => [{ dims: a.dims }, { dims: [] }, { dims: [] }];
const kept: Rule = (_node, [a = {}]) => [a];
const dimsOnly = unary();
const both = elementwise(
  (a, b) => (a === false || b === false ? false : a === true && b === true ? true : undefined),
  ONNX_BOOL,
);
const bothOrNone = elementwise(() => undefined);

const RULES: Readonly<Record<string, Rule>> = {
  Constant: (node, _inputs, graph) => {
    const tensor = attribute(node, "value")?.tensor;
    return tensor ? [constant(graph, tensor)] : undefined;
  },
  ...{
    Shape: shape,
    Gather: gather,
    Unsqueeze: unsqueeze,
    Squeeze: squeeze,
    Concat: concat,
    Reshape: reshape,
  },
  ...{ Expand: expand, Tile: tile, ConstantOfShape: constantOfShape, Range: range, Transpose: transpose },
  ...{ Slice: slice, Split: split, Pad: pad, Conv: convolution, ConvInteger: convolution },
  ...{ MatMul: matrices, MatMulInteger: matrices, ReduceMean: means, DynamicQuantizeLinear: rounded },
  ...{ Cast: cast, Where: where, Less: less, Identity: kept, And: both, Div: divide },
  Add: elementwise(onSizes(sizes.sumOf)),
  Sub: elementwise(onSizes(sizes.differenceOf)),
  Mul: elementwise(onSizes(sizes.productOf)),
  Equal: elementwise(equal, ONNX_BOOL),
  Floor: unary((each) => (typeof each === "boolean" ? undefined : sizes.floorOf(each))),
  Not: unary((each) => (typeof each === "boolean" ? !each : undefined)),
  Pow: bothOrNone,
  ...Object.fromEntries(
    ["Relu", "Sigmoid", "Sqrt", "LayerNormalization", "Softmax", "LogSoftmax"].map((kind) => [
      kind,
      dimsOnly,
    ]),
  ),
};
