import type { OnnxAttribute } from "./onnx-edit.ts";
import { attribute, FLOAT, type Network, ours } from "./onnx-network.ts";

/*
 * onnxruntime sums the rows of a normalization number by number, with a division for each. The addon sums many at once, and rounds
 * where the network does so next.
 */

/** Where a file says nothing. */
const EPSILON = 1e-5;

/** Makes operations of the addon of normalizations over the last dimension, with the rounding behind them. */
export function normalizations(net: Network): boolean {
  for (const node of net.graph.nodes) {
    const [values = "", scale = "", bias = ""] = node.inputs;
    const [result = "", ...more] = node.outputs;
    if (node.kind !== "LayerNormalization" || node.domain !== "" || more.length > 0) continue;
    if ((attribute(node, "axis")?.number ?? -1) !== -1) continue;
    const { tensors } = net.graph;
    const areRows = [scale, bias].every(
      (name) => tensors.get(name)?.type === FLOAT && tensors.get(name)?.dims.length === 1,
    );
    const given = attribute(node, "epsilon");
    const epsilon = given ? floatOf(net, given) : EPSILON;
    if (!areRows || epsilon === undefined) continue;
    const raw = new Uint8Array(Float32Array.of(epsilon).buffer);
    const inputs = [values, scale, bias, net.weights({ dims: [], type: FLOAT, raw })];
    const rounding = net.onlyReader(result, "DynamicQuantizeLinear");
    net.replace(node, rounding ? [] : [ours("Normalized", inputs, [result])]);
    if (rounding) net.replace(rounding, [ours("NormalizedRounded", inputs, [...rounding.outputs])]);
  }
  return net.finish();
}

/** The float of an attribute: a field of four bytes, which other readers step over. */
function floatOf(net: Network, { encoded }: OnnxAttribute): number | undefined {
  const [part] = encoded;
  if (!part) return undefined;
  const bytes = net.graph.read(part);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  // Tag and length of the attribute, both of one byte; then fields with a length, numbers, or the float.
  for (let at = 2; at < bytes.length; ) {
    const tag = bytes[at++] ?? 0;
    if (tag === 0x15 && at + 4 <= bytes.length) return view.getFloat32(at, true);
    if (tag % 8 === 2) at += 1 + (bytes[at] ?? 0);
    else if (tag % 8 === 0) while ((bytes[at++] ?? 0) >= 0x80);
    else return undefined;
  }
  return undefined;
}
