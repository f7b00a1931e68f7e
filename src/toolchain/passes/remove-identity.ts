// Removes nodes that return their input: Identity, and Dropout in inference mode.

import { readConstantTensor } from "../onnx/constants.ts";
import { NodeChanges } from "../onnx/graph-edits.ts";
import { readIntAttribute } from "../onnx/graph-queries.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxOp } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { replaceValues } from "../onnx/replace-values.ts";
import type { Value, ValueTable } from "../onnx/value-table.ts";
import { buildSortedValueTable } from "./pass.ts";

/** From this version on, Dropout runs in inference mode unless an input selects training. */
const DROPOUT_INFERENCE_OPSET = 7;

/**
 * An output that is also an input or a constant keeps its Identity.
 * @returns the number of removed nodes
 */
export function removeIdentity(model: Model): number {
  const table = buildSortedValueTable(model);
  const opset = opsetsOf(model).get("") ?? 0;
  const replacements = new Map<Value, Value>();
  for (const node of table.nodes) {
    const [input] = table.inputsOf(node);
    const [output, mask] = table.outputsOf(node);
    if (input === undefined || output === undefined || (mask !== undefined && mask.uses.length > 0))
      continue;
    if (
      isOnnxOp(node, "Identity") ||
      (isOnnxOp(node, "Dropout") && isInference(node, table, opset))
    )
      replacements.set(output, input);
  }
  const unread = replaceValues(table, replacements);
  const changes = new NodeChanges();
  for (const { origin } of unread) if (origin.kind === "node") changes.remove(origin.node);
  changes.apply(model);
  return unread.size;
}

function isInference(node: NodeProto, table: ValueTable, opset: number): boolean {
  if (opset < DROPOUT_INFERENCE_OPSET) return readIntAttribute(node, "is_test", 0) === 1;
  const training = table.inputsOf(node)[2];
  return (
    training === undefined ||
    readConstantTensor(training)?.rawData[0] === 0 ||
    readConstantTensor(training)?.int32Data[0] === 0
  );
}
