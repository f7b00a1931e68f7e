// An FP16 graph for ONNX Runtime's CPU provider that has FP16's roundings.
//
// That provider has few FP16 kernels. It runs the other operators in FP32 between casts, and then removes the casts to FP16
// and back between two of them, although they round (insert_cast_transformer.cc): a graph that overflows on a GPU would
// look fine. A detour through a sequence of one tensor is not removed.

import { FreshNames, NodeChanges, redirect } from "../onnx/edit.ts";
import { type Model, readModel, writeModel } from "../onnx/model-file.ts";
import { makeNode } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import { makeTensor } from "../onnx/tensors.ts";
import { valuesOf } from "../onnx/values.ts";

/** The version of ONNX's operators that sequences came with. */
const SEQUENCES = 11;

/** Whether `roundingGraph` can be made of it. */
export const hasSequences = (model: Model): boolean => (opsetsOf(model).get("") ?? 0) >= SEQUENCES;

/** Every FP16 number that a node makes is rounded to FP16 before others read it. */
export function roundingGraph(bytes: Uint8Array): Uint8Array {
  const model = readModel(bytes);
  const names = new FreshNames(model);
  const changes = new NodeChanges();
  const first = names.take("first");
  for (const value of valuesOf(model).values) {
    const readers = value.uses.filter(
      ({ kind, graph }) => kind === "node" || graph !== model.graph,
    );
    if (value.type !== "float16" || value.origin.kind !== "node" || readers.length === 0) continue;
    const [sequence, rounded] = [
      names.take(`${value.name}_sequence`),
      names.take(`${value.name}_rounded`),
    ];
    changes.insertAfterOrigin(
      value,
      makeNode({
        name: names.take(`Hold_${value.name}`),
        op: "SequenceConstruct",
        inputs: [value.name],
        outputs: [sequence],
      }),
      makeNode({
        name: names.take(`Take_${value.name}`),
        op: "SequenceAt",
        inputs: [sequence, first],
        outputs: [rounded],
      }),
    );
    for (const use of readers) redirect(use, rounded);
  }
  changes.apply(model);
  model.graph.initializer.push(makeTensor(first, "int64", [], BigInt64Array.of(0n)));
  return writeModel(model);
}
