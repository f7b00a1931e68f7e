// Makes ONNX Runtime's CPU provider round an FP16 graph as a GPU does.
//
// The provider has few FP16 kernels. It runs other operators in FP32 between casts, then removes
// pairs of casts to FP16 and back (insert_cast_transformer.cc), although they round. An overflow on
// a GPU would remain unnoticed. A round trip through a sequence of one tensor is not removed.

import { UniqueNames, NodeChanges, redirectUse } from "../onnx/graph-edits.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { makeNode } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import { makeTensor } from "../onnx/tensor-data.ts";
import { buildValueTable } from "../onnx/value-table.ts";

/** First version of ONNX's operators with sequences. */
const MIN_SEQUENCE_OPSET = 11;

/** Tells whether `emulateFp16Rounding` supports the model. */
export const supportsSequences = (model: Model): boolean =>
  (opsetsOf(model).get("") ?? 0) >= MIN_SEQUENCE_OPSET;

/** Rounds every FP16 result of a node before it is read. */
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
