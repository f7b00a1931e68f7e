// The types of a node's outputs, from those of its inputs. Written as in the specification: `float16` for a tensor of
// that, `seq(float)` for a sequence of tensors, `optional(...)`, `map(...)`, `sparse_tensor(...)`.

import { findAttribute, isOnnxOp } from "./nodes.ts";
import type { Signature } from "./operators/signatures.ts";
import type { NodeProto, TypeProto } from "./proto/onnx_pb.js";
import { elementTypeOf } from "./tensor-data.ts";

export type ValueType = string;

export function valueTypeOf(type: TypeProto | undefined): ValueType | undefined {
  const part = type?.value;
  switch (part?.case) {
    case "tensorType":
      return elementTypeOf(part.value.elemType);
    case "sequenceType":
      return `seq(${valueTypeOf(part.value.elemType) ?? "?"})`;
    case "optionalType":
      return `optional(${valueTypeOf(part.value.elemType) ?? "?"})`;
    case "mapType":
      return `map(${elementTypeOf(part.value.keyType) ?? "?"},${valueTypeOf(part.value.valueType) ?? "?"})`;
    case "sparseTensorType":
      return `sparse_tensor(${elementTypeOf(part.value.elemType) ?? "?"})`;
    default:
      return undefined;
  }
}

/** Whether it is a tensor, not something that holds some. */
export const isTensorType = (type: ValueType): boolean => !type.includes("(");

type Types = readonly (ValueType | undefined)[];

/**
 * The types of the inputs of a body, where the operator says them and the body does not have to.
 * @param inputs the types of the node's inputs
 */
export function inferSubgraphInputTypes(node: NodeProto, inputs: Types): Types {
  if (isOnnxOp(node, "Loop")) return ["int64", "bool", ...inputs.slice(2)];
  if (isOnnxOp(node, "Scan")) return inputs;
  if (isOnnxOp(node, "SequenceMap"))
    return inputs.map((type) => (type === undefined ? undefined : containedType(type)));
  return [];
}

/**
 * @param inputs the types of the node's inputs
 * @param bodies the types of its bodies' outputs
 * @returns for each output its type, or undefined where the signature does not tell
 */
export function inferOutputTypes(
  node: NodeProto,
  signature: Signature | undefined,
  inputs: Types,
  bodies: readonly Types[],
): Types {
  if (signature === undefined) return [];
  const [body = []] = bodies;
  if (isOnnxOp(node, "If", "Scan")) return body;
  if (isOnnxOp(node, "Loop")) return body.slice(1); // the first is the condition
  if (isOnnxOp(node, "SequenceMap")) return body.map((type) => type && `seq(${type})`);

  const bound = new Map<string, ValueType>();
  inputs.forEach((type, position) => {
    const operand = signature.input(position);
    if (type !== undefined && operand !== undefined && "variable" in operand)
      bound.set(operand.variable, type);
  });
  return node.output.map((_, position) => {
    const operand = signature.output(position);
    if (operand === undefined) return undefined;
    return "type" in operand
      ? operand.type
      : (bound.get(operand.variable) ?? typeFromAttributes(node, inputs));
  });
}

/** Where an operator says the type of what it makes, and which one it is where it does not. */
export const TYPE_ATTRIBUTES: Readonly<
  Record<string, { readonly name: string; readonly fallback?: ValueType | "same-as-input" }>
> = {
  Cast: { name: "to" },
  BitCast: { name: "to" },
  EyeLike: { name: "dtype", fallback: "the input's" },
  Bernoulli: { name: "dtype", fallback: "the input's" },
  Multinomial: { name: "dtype", fallback: "int32" },
  RandomNormal: { name: "dtype", fallback: "float" },
  RandomNormalLike: { name: "dtype", fallback: "the input's" },
  RandomUniform: { name: "dtype", fallback: "float" },
  RandomUniformLike: { name: "dtype", fallback: "the input's" },
  BlackmanWindow: { name: "output_datatype", fallback: "float" },
  HammingWindow: { name: "output_datatype", fallback: "float" },
  HannWindow: { name: "output_datatype", fallback: "float" },
  MelWeightMatrix: { name: "output_datatype", fallback: "float" },
  LayerNormalization: { name: "stash_type", fallback: "float" }, // of its second and third output
  QuantizeLinear: { name: "output_dtype", fallback: "uint8" },
  DequantizeLinear: { name: "output_dtype" },
};

/** Of the operators whose output has a type that no input has. */
function typeFromAttributes(node: NodeProto, [first, second]: Types): ValueType | undefined {
  const named = (name: string) => {
    const value = findAttribute(node, name)?.i;
    return value === undefined ? undefined : elementTypeOf(Number(value));
  };
  const attribute = Object.hasOwn(TYPE_ATTRIBUTES, node.opType)
    ? TYPE_ATTRIBUTES[node.opType]
    : undefined;
  const said =
    attribute &&
    (named(attribute.name) ?? (attribute.fallback === "the input's" ? first : attribute.fallback));
  if (said !== undefined) return said;
  switch (node.opType) {
    case "Constant":
      return typeOfConstantNode(node);
    case "ConstantOfShape":
      return elementTypeOf(findAttribute(node, "value")?.t?.dataType ?? 1);
    case "DequantizeLinear":
      return second;
    case "SequenceEmpty":
      return `seq(${named("dtype") ?? "float"})`;
    case "SequenceConstruct":
    case "SplitToSequence":
      return first && `seq(${first})`;
    case "SequenceAt":
    case "ConcatFromSequence":
    case "OptionalGetElement":
      return first && containedType(first);
    case "Optional":
      return `optional(${first ?? valueTypeOf(findAttribute(node, "type")?.tp) ?? "?"})`;
    default:
      return undefined;
  }
}

function typeOfConstantNode({ attribute: [value] }: NodeProto): ValueType | undefined {
  switch (value?.name) {
    case "value":
      return elementTypeOf(value.t?.dataType ?? 0);
    case "sparse_value":
      return elementTypeOf(value.sparseTensor?.values?.dataType ?? 0);
    case "value_float":
    case "value_floats":
      return "float";
    case "value_int":
    case "value_ints":
      return "int64";
    case "value_string":
    case "value_strings":
      return "string";
    default:
      return undefined;
  }
}

/** What a sequence or optional holds; a plain type is itself, as OptionalGetElement takes those too. */
const containedType = (type: ValueType): ValueType =>
  /^(?:seq|optional)\((.*)\)$/.exec(type)?.[1] ?? type;
