// Builds models of a few nodes from a compact notation.
import { create } from "@bufbuild/protobuf";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { makeNode } from "../../../src/toolchain/onnx/nodes.ts";
import {
  type AttributeProto,
  AttributeProto_AttributeType,
  AttributeProtoSchema,
  type GraphProto,
  GraphProtoSchema,
  ModelProtoSchema,
  type NodeProto,
  type TensorProto,
  type ValueInfoProto,
  ValueInfoProtoSchema,
} from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { toDataType, makeTensor } from "../../../src/toolchain/onnx/tensor-data.ts";

/** Parses `"x: float [N, 3]"`, or `"x"` without a type. */
export function makeValueInfo(text: string): ValueInfoProto {
  const [, name = "", type, shape] = /^([^:]+)(?:: (\w+) \[(.*)\])?$/.exec(text) ?? [];
  if (type === undefined) return create(ValueInfoProtoSchema, { name });
  const dim = (shape ?? "")
    .split(",")
    .map((size) => size.trim())
    .filter((size) => size !== "");
  const dims = dim.map((size) => ({
    value: /^\d+$/.test(size)
      ? ({ case: "dimValue", value: BigInt(size) } as const)
      : ({ case: "dimParam", value: size } as const),
  }));
  return create(ValueInfoProtoSchema, {
    name,
    type: {
      value: { case: "tensorType", value: { elemType: toDataType(type), shape: { dim: dims } } },
    },
  });
}

/**
 * Parses `"Add x y -> z"`. The node is named after its first output; `_` omits an optional input.
 */
export function node(
  text: string,
  attributes: readonly AttributeProto[] = [],
  domain?: string,
): NodeProto {
  const [left = "", right = ""] = text.split(" -> ");
  const [op = "", ...inputs] = left.split(" ");
  const outputs = right.split(" ");
  return makeNode({
    name: `make_${outputs[0]}`,
    op,
    inputs: inputs.map((name) => (name === "_" ? "" : name)),
    outputs,
    attributes,
    ...(domain === undefined ? {} : { domain }),
  });
}

export const subgraphAttribute = (name: string, g: GraphProto): AttributeProto =>
  create(AttributeProtoSchema, { name, type: AttributeProto_AttributeType.GRAPH, g });
export const intListAttribute = (name: string, values: readonly number[]): AttributeProto =>
  create(AttributeProtoSchema, {
    name,
    type: AttributeProto_AttributeType.INTS,
    ints: values.map(BigInt),
  });
export const floatAttribute = (name: string, f: number): AttributeProto =>
  create(AttributeProtoSchema, { name, type: AttributeProto_AttributeType.FLOAT, f });

export const floatTensor = (
  name: string,
  values: readonly number[],
  dims: readonly number[] = [values.length],
): TensorProto => makeTensor(name, "float", dims.map(BigInt), Float32Array.from(values));
export const int64Tensor = (
  name: string,
  values: readonly number[],
  dims: readonly number[] = [values.length],
): TensorProto => makeTensor(name, "int64", dims.map(BigInt), BigInt64Array.from(values, BigInt));
export const int8Tensor = (
  name: string,
  values: readonly number[],
  dims: readonly number[] = [values.length],
): TensorProto => makeTensor(name, "int8", dims.map(BigInt), Int8Array.from(values));

export interface GraphSpec {
  readonly inputs?: readonly string[];
  readonly outputs: readonly string[];
  readonly nodes: readonly NodeProto[];
  readonly constants?: readonly TensorProto[];
  readonly valueInfo?: readonly string[];
}

export const graph = ({
  inputs = [],
  outputs,
  nodes,
  constants = [],
  valueInfo = [],
}: GraphSpec): GraphProto =>
  create(GraphProtoSchema, {
    name: "small",
    input: inputs.map(makeValueInfo),
    output: outputs.map(makeValueInfo),
    node: [...nodes],
    initializer: [...constants],
    valueInfo: valueInfo.map(makeValueInfo),
  });

export interface ModelSpec extends GraphSpec {
  readonly opset?: number;
  readonly irVersion?: number;
  readonly domains?: readonly string[];
}

export function model({ opset = 20, irVersion = 9, domains = [], ...parts }: ModelSpec): Model {
  const opsetImport = [
    { version: BigInt(opset) },
    ...domains.map((domain) => ({ domain, version: 1n })),
  ];
  return Object.assign(create(ModelProtoSchema, { irVersion: BigInt(irVersion), opsetImport }), {
    graph: graph(parts),
  });
}
