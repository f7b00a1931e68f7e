// Infers the types of a node's outputs from its input types. Types are written as in the
// specification: `float16` for a tensor of that type, `seq(float)`, `optional(...)`, `map(...)`,
// `sparse_tensor(...)`.

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

/** Tells a tensor from a container of tensors. */
export const isTensorType = (type: ValueType): boolean => !type.includes("(");

type Types = readonly (ValueType | undefined)[];

/**
 * Returns the input types of a body, which the operator may determine without a declaration in the
 * body.
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
 * @returns the type of each output, or undefined if the signature does not determine it
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
  // The first output of a Loop body is its condition.
  if (isOnnxOp(node, "Loop")) return body.slice(1);
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

/** Attributes that set the output type of an operator, and the type if the attribute is absent. */
export const TYPE_ATTRIBUTES: Readonly<
  Record<string, { readonly name: string; readonly fallback?: ValueType | "same-as-input" }>
> = {
  Cast: { name: "to" },
  BitCast: { name: "to" },
  EyeLike: { name: "dtype", fallback: "same-as-input" },
  Bernoulli: { name: "dtype", fallback: "same-as-input" },
  Multinomial: { name: "dtype", fallback: "int32" },
  RandomNormal: { name: "dtype", fallback: "float" },
  RandomNormalLike: { name: "dtype", fallback: "same-as-input" },
  RandomUniform: { name: "dtype", fallback: "float" },
  RandomUniformLike: { name: "dtype", fallback: "same-as-input" },
  BlackmanWindow: { name: "output_datatype", fallback: "float" },
  HammingWindow: { name: "output_datatype", fallback: "float" },
  HannWindow: { name: "output_datatype", fallback: "float" },
  MelWeightMatrix: { name: "output_datatype", fallback: "float" },
  // The attribute applies to the second and third output.
  LayerNormalization: { name: "stash_type", fallback: "float" },
  QuantizeLinear: { name: "output_dtype", fallback: "uint8" },
  DequantizeLinear: { name: "output_dtype" },
};

/** Infers the output type of an operator whose signature does not derive it from an input type. */
function typeFromAttributes(node: NodeProto, [first, second]: Types): ValueType | undefined {
  const typeInAttribute = (name: string) => {
    const value = findAttribute(node, name)?.i;
    return value === undefined ? undefined : elementTypeOf(Number(value));
  };
  const attribute = Object.hasOwn(TYPE_ATTRIBUTES, node.opType)
    ? TYPE_ATTRIBUTES[node.opType]
    : undefined;
  const declaredType =
    attribute &&
    (typeInAttribute(attribute.name) ??
      (attribute.fallback === "same-as-input" ? first : attribute.fallback));
  if (declaredType !== undefined) return declaredType;
  switch (node.opType) {
    case "Constant":
      return typeOfConstantNode(node);
    case "ConstantOfShape":
      return elementTypeOf(findAttribute(node, "value")?.t?.dataType ?? 1);
    case "DequantizeLinear":
      return second;
    case "SequenceEmpty":
      return `seq(${typeInAttribute("dtype") ?? "float"})`;
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

/**
 * Returns the element type of a sequence or optional. A plain type returns itself, because
 * OptionalGetElement also accepts tensors.
 */
const containedType = (type: ValueType): ValueType =>
  /^(?:seq|optional)\((.*)\)$/.exec(type)?.[1] ?? type;
