// An FP16 graph for ONNX Runtime's CPU provider that has FP16's roundings.
//
// That provider has few FP16 kernels. It runs the other operators in FP32 between casts, and then removes the casts to FP16
// and back between two of them, although they round (insert_cast_transformer.cc): a graph that overflows on a GPU would
// look fine. A detour through a sequence of one tensor is not removed.

import { UniqueNames, NodeChanges, redirectUse } from "../onnx/graph-edits.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { makeNode } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import { makeTensor } from "../onnx/tensor-data.ts";
import { buildValueTable } from "../onnx/value-table.ts";

/** The version of ONNX's operators that sequences came with. */
const MIN_SEQUENCE_OPSET = 11;

/** Whether `emulateFp16Rounding` can be made of it. */
export const supportsSequences = (model: Model): boolean =>
  (opsetsOf(model).get("") ?? 0) >= MIN_SEQUENCE_OPSET;

/** Every FP16 number that a node makes is rounded to FP16 before others read it. */
export function emulateFp16Rounding(bytes: Uint8Array): Uint8Array {
  const model = parseModel(bytes);
  const names = new UniqueNames(model);
  const changes = new NodeChanges();
  const first = names.reserve("first");
  for (const value of buildValueTable(model).values) {
    const readers = value.uses.filter(
      ({ kind, graph }) => kind === "node" || graph !== model.graph,
    );
    if (value.type !== "float16" || value.origin.kind !== "node" || readers.length === 0) continue;
    const [sequence, rounded] = [
      names.reserve(`${value.name}_sequence`),
      names.reserve(`${value.name}_rounded`),
    ];
    changes.insertAfterOrigin(
      value,
      makeNode({
        name: names.reserve(`Hold_${value.name}`),
        op: "SequenceConstruct",
        inputs: [value.name],
        outputs: [sequence],
      }),
      makeNode({
        name: names.reserve(`Take_${value.name}`),
        op: "SequenceAt",
        inputs: [sequence, first],
        outputs: [rounded],
      }),
    );
    for (const use of readers) redirectUse(use, rounded);
  }
  changes.apply(model);
  model.graph.initializer.push(makeTensor(first, "int64", [], BigInt64Array.of(0n)));
  return serializeModel(model);
}
