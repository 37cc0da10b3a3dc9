import { type Network, ours } from "./onnx-network.ts";

/** Joins the products before and behind `RelativeSoftmax` with it, so that each frame's scores stay in the processor's cache. */
export function relativeAttentions(net: Network): boolean {
  for (const node of net.graph.nodes) {
    if (node.kind !== "RelativeSoftmax") continue;
    const [content = "", distance = "", scale = ""] = node.inputs;
    const [weights = ""] = node.outputs;
    const before = [content, distance].map((name) => net.maker(name, "MatMul"));
    const after = net.onlyReader(weights, "MatMul");
    const areAlone = [content, distance].every((name) => net.onlyReader(name, node.kind) === node);
    const [byContent, byDistance] = before;
    if (!byContent || !byDistance || after?.inputs[0] !== weights || !areAlone) continue;
    const inputs = [...byContent.inputs, ...byDistance.inputs, after.inputs[1] ?? "", scale];
    for (const each of [byContent, byDistance, node]) net.replace(each, []);
    net.replace(after, [ours("RelativeAttention", inputs, [...after.outputs])]);
  }
  return net.finish();
}
