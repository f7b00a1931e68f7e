// Validates input tensors against a session's declaration, before ONNX Runtime reads them. All runtimes share it.

import { coreErrors } from "../core/common-errors.ts";
import { countElements, type NamedTensors, type TensorSpec } from "../core/tensor.ts";

/** @throws invalid_tensor for a missing or unknown input, or for a wrong datatype, shape or element count */
export function validateInputs(specs: readonly TensorSpec[], inputs: NamedTensors): void {
  for (const name of Object.keys(inputs)) {
    if (!specs.some((spec) => spec.name === name))
      throw coreErrors.invalidTensor(name, "the model has no such input");
  }
  for (const spec of specs) {
    const tensor = Object.hasOwn(inputs, spec.name) ? inputs[spec.name] : undefined;
    if (tensor === undefined) throw coreErrors.invalidTensor(spec.name, "the input is missing");
    if (tensor.datatype !== spec.datatype)
      throw coreErrors.invalidTensor(
        spec.name,
        `datatype ${tensor.datatype}, expected ${spec.datatype}`,
      );
    const fits =
      tensor.shape.length === spec.shape.length &&
      spec.shape.every((dimension, axis) => dimension === -1 || dimension === tensor.shape[axis]);
    if (!fits)
      throw coreErrors.invalidTensor(
        spec.name,
        `shape [${tensor.shape.join(", ")}], expected [${spec.shape.join(", ")}]`,
      );
    const expected = countElements(spec.name, tensor.shape);
    if (tensor.data.length !== expected)
      throw coreErrors.invalidTensor(
        spec.name,
        `${tensor.data.length} elements, but its shape has ${expected}`,
      );
  }
}
