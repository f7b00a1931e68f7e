// Writes ONNX models: the part of onnx.proto that an inference graph needs, in Protocol Buffers' wire format by hand.
// Field numbers are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.

import { byteView, concatBytes } from "../../../src/core/bytes.ts";
import type { NumericDatatype, Tensor } from "../../../src/core/tensor.ts";
import { toOnnxType } from "../../../src/runtime/wasm/onnx-datatypes.ts";

const IR_VERSION = 8;
const [VARINT, LENGTH_DELIMITED, FIXED32] = [0, 2, 5];
/** AttributeProto.AttributeType */
const [FLOAT, INT, INTS] = [1, 2, 7];

/** An attribute's value: made by `float`, `int` or `ints`. */
export interface AttributeValue {
  readonly type: number;
  readonly fields: readonly Uint8Array[];
}

/** Inputs and outputs are names of tensors; an empty name omits an optional input. */
export interface OnnxNode {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: Readonly<Record<string, AttributeValue>>;
}

/** Input or output of the graph. A named dimension is variable; equal names mean equal sizes. */
export interface OnnxValueInfo {
  readonly name: string;
  readonly datatype: NumericDatatype;
  readonly shape: readonly (number | string)[];
}

export interface OnnxGraph {
  readonly name: string;
  /** Version of the operators of the standard domain. */
  readonly opset: number;
  readonly inputs: readonly OnnxValueInfo[];
  readonly outputs: readonly OnnxValueInfo[];
  /** Nodes in topological order. */
  readonly nodes: readonly OnnxNode[];
  /** Constant tensors by name. A scalar has the shape []. */
  readonly initializers: Readonly<Record<string, Exclude<Tensor, { datatype: "BYTES" }>>>;
}

/** A 64-bit signed integer. */
export const int = (value: number): AttributeValue => ({ type: INT, fields: [integer(3, value)] });
/** Integers, such as strides. */
export const ints = (values: readonly number[]): AttributeValue => ({
  type: INTS,
  fields: values.map((value) => integer(8, value)),
});
/** Rounded to 32 bits. */
export const float = (value: number): AttributeValue => {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setFloat32(0, value, true);
  return { type: FLOAT, fields: [concatBytes([tag(2, FIXED32), bytes])] };
};

/** The bytes of an .onnx file (a ModelProto). The same graph gives the same bytes. Checks nothing: ONNX Runtime does. */
export function encodeModel(graph: OnnxGraph): Uint8Array {
  const opset = [text(1, ""), integer(2, graph.opset)];
  return concatBytes([
    integer(1, IR_VERSION),
    text(2, "edgetier-bench"),
    message(7, graphFields(graph)),
    message(8, opset),
  ]);
}

function graphFields({ name, nodes, initializers, inputs, outputs }: OnnxGraph): Uint8Array[] {
  return [
    ...nodes.map((node, index) => message(1, nodeFields(node, index))),
    text(2, name),
    ...Object.entries(initializers).map(([name, { datatype, shape, data }]) => {
      const raw = byteView(data); // little-endian on every platform of Node
      return message(5, [
        ...shape.map((size) => integer(1, size)),
        integer(2, toOnnxType(datatype)),
        text(8, name),
        bytes(9, raw),
      ]);
    }),
    ...inputs.map((port) => message(11, portFields(port))),
    ...outputs.map((port) => message(12, portFields(port))),
  ];
}

const nodeFields = (
  { op, inputs, outputs, attributes = {} }: OnnxNode,
  index: number,
): Uint8Array[] => [
  ...inputs.map((input) => text(1, input)),
  ...outputs.map((output) => text(2, output)),
  text(3, `${op}_${index}`),
  text(4, op),
  ...Object.entries(attributes).map(([name, { type, fields }]) =>
    message(5, [text(1, name), ...fields, integer(20, type)]),
  ),
];

/** ValueInfoProto { name = 1, type = 2 { tensor_type = 1 { elem_type = 1, shape = 2 { dim = 1 { dim_value = 1 | dim_param = 2 } } } } } */
function portFields({ name, datatype, shape }: OnnxValueInfo): Uint8Array[] {
  const dimensions = shape.map((size) =>
    message(1, [typeof size === "number" ? integer(1, size) : text(2, size)]),
  );
  const tensorType = message(1, [integer(1, toOnnxType(datatype)), message(2, dimensions)]);
  return [text(1, name), message(2, [tensorType])];
}

const tag = (field: number, wireType: number) => varint(BigInt(field * 8 + wireType));
const integer = (field: number, value: number) =>
  concatBytes([tag(field, VARINT), varint(BigInt.asUintN(64, BigInt(value)))]);
const bytes = (field: number, content: Uint8Array) =>
  concatBytes([tag(field, LENGTH_DELIMITED), varint(BigInt(content.byteLength)), content]);
const text = (field: number, content: string) => bytes(field, new TextEncoder().encode(content));
const message = (field: number, fields: readonly Uint8Array[]) => bytes(field, concatBytes(fields));

/** Varint: seven bits per byte, the lowest first. The top bit marks that more bytes follow. */
function varint(value: bigint): Uint8Array {
  const groups: number[] = [];
  for (; value > 0x7fn; value >>= 7n) groups.push(Number(value & 0x7fn) | 0x80);
  return Uint8Array.of(...groups, Number(value));
}
