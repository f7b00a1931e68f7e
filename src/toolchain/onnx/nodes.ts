// Creates nodes and reads and writes their attributes.

import { create } from "@bufbuild/protobuf";
import {
  type AttributeProto,
  AttributeProto_AttributeType as AttributeType,
  AttributeProtoSchema,
  type NodeProto,
  NodeProtoSchema,
  type TensorProto,
} from "./proto/onnx_pb.js";

export interface NodeSpec {
  readonly name: string;
  readonly op: string;
  /** Omitted for the standard ONNX operators. */
  readonly domain?: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: readonly AttributeProto[];
}

export function makeNode({
  name,
  op,
  domain,
  inputs,
  outputs,
  attributes = [],
}: NodeSpec): NodeProto {
  return create(NodeProtoSchema, {
    name,
    opType: op,
    input: [...inputs],
    output: [...outputs],
    attribute: [...attributes],
    ...(domain === undefined ? {} : { domain }),
  });
}

export const makeIntAttribute = (name: string, value: number): AttributeProto =>
  create(AttributeProtoSchema, { name, type: AttributeType.INT, i: BigInt(value) });
export const makeIntsAttribute = (name: string, values: readonly number[]): AttributeProto =>
  create(AttributeProtoSchema, { name, type: AttributeType.INTS, ints: values.map(BigInt) });
export const makeTensorAttribute = (name: string, value: TensorProto): AttributeProto =>
  create(AttributeProtoSchema, { name, type: AttributeType.TENSOR, t: value });

export const findAttribute = ({ attribute }: NodeProto, name: string): AttributeProto | undefined =>
  attribute.find((candidate) => candidate.name === name);

/** Replaces the attribute of the same name, or appends the attribute. */
export function setAttribute(node: NodeProto, attribute: AttributeProto): void {
  const position = node.attribute.findIndex(({ name }) => name === attribute.name);
  if (position < 0) node.attribute.push(attribute);
  else node.attribute[position] = attribute;
}

export function removeAttribute(node: NodeProto, name: string): void {
  node.attribute = node.attribute.filter((candidate) => candidate.name !== name);
}

/** Returns the operator domain. The standard ONNX domain has two spellings; both become "". */
export const domainOf = ({ domain }: { readonly domain: string }): string =>
  domain === "ai.onnx" ? "" : domain;
export const isOnnxOp = (node: NodeProto, ...ops: readonly string[]): boolean =>
  domainOf(node) === "" && ops.includes(node.opType);

/** Returns a node's label in messages: its name, or else its first output, or else its operator. */
export const displayNameOf = (node: NodeProto): string =>
  node.name || node.output.find((name) => name !== "") || node.opType;
