// Reads constant values: initializers, and the outputs of Constant nodes.

import { isOnnxOp } from "./nodes.ts";
import type { TensorProto } from "./proto/onnx_pb.js";
import { readFloats, makeTensor } from "./tensor-data.ts";
import type { Value } from "./value-table.ts";

/**
 * Returns undefined if the value is not constant, or is not stored as a dense tensor (strings,
 * sparse tensors).
 */
export function readConstantTensor(value: Value | undefined): TensorProto | undefined {
  const origin = value?.origin;
  if (origin?.kind === "initializer") return origin.isConstant ? origin.tensor : undefined;
  if (origin?.kind !== "node" || !isOnnxOp(origin.node, "Constant")) return undefined;
  const [attribute] = origin.node.attribute;
  switch (attribute?.name) {
    case "value":
      return attribute.t;
    case "value_float":
      return makeTensor("", "float", [], Float32Array.of(attribute.f));
    case "value_floats":
      return makeTensor(
        "",
        "float",
        [BigInt(attribute.floats.length)],
        Float32Array.from(attribute.floats),
      );
    case "value_int":
      return makeTensor("", "int64", [], BigInt64Array.of(attribute.i));
    case "value_ints":
      return makeTensor(
        "",
        "int64",
        [BigInt(attribute.ints.length)],
        BigInt64Array.from(attribute.ints),
      );
    default:
      return undefined;
  }
}

/** Reads the elements of an FP32 constant. */
export function readFloatConstant(value: Value | undefined): Float32Array | undefined {
  const tensor = value?.type === "float" ? readConstantTensor(value) : undefined;
  return tensor && readFloats(tensor);
}
