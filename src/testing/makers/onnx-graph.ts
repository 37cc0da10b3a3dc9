import { parse } from "protobufjs";

/** Reads and writes ONNX files (onnx.proto of ONNX 1.17) as objects, so that tests can change the graph of a real model. */

export type Pair = { key: string; value: string };
export type Tensor = {
  name?: string;
  dims?: number[];
  data_type: number;
  raw_data?: Uint8Array;
  int32_data?: number[];
  external_data?: Pair[];
  data_location?: number;
};
export type Attribute = {
  name: string;
  type: number;
  i?: number;
  f?: number;
  ints?: number[];
  t?: Tensor;
  g?: Graph;
};
export type Node = {
  input?: string[];
  output: string[];
  name?: string;
  op_type: string;
  domain?: string;
  attribute?: Attribute[];
};
type Dimension = { dim_value?: number; dim_param?: string };
export type Port = {
  name: string;
  type: { tensor_type: { elem_type: number; shape: { dim: Dimension[] } } };
};
export type Graph = { node: Node[]; name?: string; initializer?: Tensor[]; input: Port[]; output: Port[] };
export type Model = {
  ir_version: number;
  graph: Graph;
  opset_import: { domain?: string; version: number }[];
  metadata_props?: Pair[];
};

const SCHEMA = `syntax = "proto3";
message Pair { string key = 1; string value = 2; }
message Tensor {
  repeated int64 dims = 1; int32 data_type = 2; repeated int32 int32_data = 5; string name = 8; bytes raw_data = 9; repeated Pair external_data = 13;
  int32 data_location = 14;
}
message Attribute {
  string name = 1; float f = 2; int64 i = 3; bytes s = 4; Tensor t = 5; Graph g = 6; repeated float floats = 7; repeated int64 ints = 8;
  int32 type = 20;
}
message Node {
  repeated string input = 1; repeated string output = 2; string name = 3; string op_type = 4;
  repeated Attribute attribute = 5; string domain = 7;
}
message Dimension { oneof size { int64 dim_value = 1; string dim_param = 2; } }
message Shape { repeated Dimension dim = 1; }
message TensorType { int32 elem_type = 1; Shape shape = 2; }
message Type { TensorType tensor_type = 1; }
message Port { string name = 1; Type type = 2; }
message Graph {
  repeated Node node = 1; string name = 2; repeated Tensor initializer = 5; repeated Port input = 11;
  repeated Port output = 12;
}
message Opset { string domain = 1; int64 version = 2; }
message Model { int64 ir_version = 1; Graph graph = 7; repeated Opset opset_import = 8; repeated Pair metadata_props = 14; }
`;
const MODEL = parse(SCHEMA, { keepCase: true }).root.lookupType("Model");

/** Reads a model. Names of values within its graph are kept. */
export function readOnnx(bytes: Uint8Array): Model {
  const message = MODEL.decode(bytes);
  return MODEL.toObject(message, { longs: Number }) as Model;
}

export function writeOnnx(model: Model): Uint8Array {
  return MODEL.encode(MODEL.fromObject(model)).finish();
}

/** Makes the description of an input or output. A dimension is a number or a name. */
export function portOf(name: string, type: number, shape: readonly (number | string)[]): Port {
  const dim = shape.map((size) => (typeof size === "number" ? { dim_value: size } : { dim_param: size }));
  return { name, type: { tensor_type: { elem_type: type, shape: { dim } } } };
}

/** Makes a tensor that the file itself holds. */
export function tensorOf(
  name: string,
  dims: number[],
  values: Float32Array | BigInt64Array | Int8Array,
): Tensor {
  const type = values instanceof Float32Array ? 1 : values instanceof Int8Array ? 3 : 7;
  return {
    ...{ name, dims, data_type: type },
    raw_data: new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
  };
}

/** Returns the numbers of a tensor of floats that the file itself holds. */
export function floatsOf({ raw_data = new Uint8Array() }: Tensor): Float32Array<ArrayBuffer> {
  return new Float32Array(Uint8Array.from(raw_data).buffer);
}
