// Values that are the same whatever a model is asked: initializers, and the outputs of Constant nodes.

import { isOnnxOp } from "./nodes.ts";
import type { TensorProto } from "./proto/onnx_pb.js";
import { readFloats, makeTensor } from "./tensor-data.ts";
import type { Value } from "./value-table.ts";

/** Undefined for what is no constant, or one that is not written as a tensor of its own elements (strings, sparse ones). */
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

/** The numbers of an FP32 constant. */
export function readFloatConstant(value: Value | undefined): Float32Array | undefined {
  const tensor = value?.type === "float" ? readConstantTensor(value) : undefined;
  return tensor && readFloats(tensor);
}
