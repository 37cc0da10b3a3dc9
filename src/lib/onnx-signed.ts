import type { OnnxGraph, OnnxNode, OnnxTensor } from "./onnx-edit.ts";

/*
 * Exporters round the weights of a network to bytes without a sign (`quantize_dynamic` with QUInt8). onnxruntime multiplies bytes
 * with a sign two and a half times as fast on a processor with VNNI. A weight less 128 whose zero is less 128 as well is the same
 * number, and the products are whole numbers, so a network with such weights computes exactly the same.
 */

/** Numbers of ONNX data types. */
const [UINT8, INT8] = [2, 3];
const SIGN = 0x80;

/** A product of whole numbers with the weights of a name, and the weights' zero. */
type Product = { weight: string; zero: string };

/**
 * Gives a sign to the weights of products of whole numbers (`MatMulInteger`), where nothing else reads them or their zero.
 *
 * @param graph without graphs within its nodes
 * @returns whether there were such weights
 */
export function signWeights({ nodes, tensors, ports }: OnnxGraph): boolean {
  const others = new Set(ports);
  const products = nodes.flatMap((node) => productsOf(node, others));
  const isOne = (name: string) => {
    const found = tensors.get(name);
    return found?.type === UINT8 && !found.isElsewhere && !others.has(name);
  };
  // A product whose weights or zero stay keeps the other one, too, and with it those of further products.
  for (let before = -1; before !== others.size; ) {
    before = others.size;
    for (const { weight, zero } of products)
      if (!isOne(weight) || !isOne(zero) || tensors.get(weight)?.raw === undefined)
        others.add(weight).add(zero);
  }
  const chosen = (names: string[]) =>
    [...new Set(names)].filter(isOne).flatMap((name) => tensors.get(name) ?? []);
  const weights = chosen(products.map(({ weight }) => weight));
  for (const each of weights) giveSign(each);
  for (const each of chosen(products.map(({ zero }) => zero))) giveSign(each);
  return weights.length > 0;
}

/** Returns the product that a node is, if it is one, and notes what else it reads. */
function productsOf({ kind, domain, inputs }: OnnxNode, others: Set<string>): Product[] {
  const [, weight, , zero] = inputs;
  const isProduct = kind === "MatMulInteger" && domain === "" && weight && zero;
  for (const [place, name] of inputs.entries()) if (!isProduct || place % 2 === 0) others.add(name);
  return isProduct ? [{ weight, zero }] : [];
}

function giveSign(tensor: OnnxTensor): void {
  const { raw, values } = tensor;
  tensor.type = INT8;
  tensor.values = [];
  delete tensor.original;
  // What is made of weights is not read by products of onnxruntime.
  if (raw && "make" in raw) return;
  if (raw === undefined || raw instanceof Uint8Array)
    tensor.raw = (raw ?? Uint8Array.from(values)).map((value) => value ^ SIGN);
  else
    tensor.raw = {
      ...raw,
      change(bytes) {
        raw.change?.(bytes);
        changeSigns(bytes);
      },
    };
}

/** Changes the highest bit of each byte, which is to take 128 away and to read the byte with a sign. */
function changeSigns(bytes: Uint8Array<ArrayBuffer>): void {
  const ahead = Math.min(bytes.length, (4 - (bytes.byteOffset % 4)) % 4);
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset + ahead, (bytes.length - ahead) >> 2);
  for (let at = 0; at < words.length; at++) words[at] = (words[at] ?? 0) ^ 0x80808080;
  const flip = (from: number, to: number) => {
    for (let at = from; at < to; at++) bytes[at] = (bytes[at] ?? 0) ^ SIGN;
  };
  flip(0, ahead);
  flip(ahead + 4 * words.length, bytes.length);
}
