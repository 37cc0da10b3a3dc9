import { constantsOf, hasDimsOf, type Known } from "./onnx-known.ts";
import { attribute, change, INT64, type Network } from "./onnx-network.ts";
import { isSame } from "./onnx-sizes.ts";

/*
 * NeMo's exporter writes masks of padding into the network: sums and products of whole convolutions with masks, and masks of
 * attention. This addon gives a network one sound at a time and its true length, so nothing of it is padding. Where that follows from
 * the graph itself for sounds of every length, the masks are left out, and nothing else is computed than before.
 */

/** Leaves out masks that leave everything as it is. */
export function leaveOutMasks(net: Network, known: ReadonlyMap<string, Known>): boolean {
  const same = new Map<string, string>();
  const rootOf = (name: string): string => {
    const source = same.get(name);
    return source === undefined ? name : rootOf(source);
  };
  for (const node of net.graph.nodes) {
    const [result = ""] = node.outputs;
    if (node.domain !== "" || net.graph.ports.has(result)) continue;
    const values = node.inputs.map((name) => known.get(name));
    let kept: number | undefined;
    if (node.kind === "Where")
      kept = values[0]?.every === false ? 2 : values[0]?.every === true ? 1 : undefined;
    if (node.kind === "Mul") kept = values[1]?.every === 1 ? 0 : values[0]?.every === 1 ? 1 : undefined;
    if (kept === undefined || !hasDimsOf(known.get(result), values[kept])) continue;
    same.set(result, node.inputs[kept] ?? "");
    net.replace(node, []);
  }
  if (same.size === 0) return false;
  for (const node of net.graph.nodes)
    if (node.inputs.some((name) => same.has(name))) change(node, { inputs: node.inputs.map(rootOf) });
  return net.finish();
}

/** Writes sizes that are always the same as numbers, and those of `Reshape` so that they follow from what it reads. */
export function writeSizes(net: Network, known: ReadonlyMap<string, Known>): boolean {
  let isChanged = false;
  for (const node of net.graph.nodes) {
    if (node.domain !== "") continue;
    const inputs = node.inputs.map((name, place) => {
      const value = known.get(name);
      if (net.isConstant(name) || value?.type !== INT64 || value.dims?.length !== 1) return name;
      const isTarget = node.kind === "Reshape" && place === 1 && !attribute(node, "allowzero")?.number;
      const numbers =
        constantsOf(value) ?? (isTarget ? targetOf(value, known.get(node.inputs[0] ?? "")) : undefined);
      // The largest number of 64 bits, which is the end of a list, has another value here, and so cannot be written.
      if (!numbers || numbers.length === 0 || !numbers.every(Number.isSafeInteger)) return name;
      const raw = new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer);
      return net.weights({ dims: [numbers.length], type: INT64, raw });
    });
    if (inputs.every((name, place) => name === node.inputs[place])) continue;
    change(node, { inputs });
    isChanged = true;
  }
  return isChanged;
}

/** What `Reshape` may read instead of sizes: 0 for a dimension that stays, and -1 for one more. */
function targetOf({ list }: Known, from: Known | undefined): number[] | undefined {
  const numbers = list?.map((size, at) => {
    if (typeof size === "number" || typeof size === "boolean") return Number(size);
    return isSame(size, from?.dims?.[at]) ? 0 : undefined;
  });
  const open = numbers?.filter((size) => size === undefined || size < 0).length ?? 2;
  return open > 1 ? undefined : numbers?.map((size) => size ?? -1);
}
