// Validates an infer request's inputs against a model's declaration, with Triton's error texts.

import type { NamedTensors, TensorSpec } from "../core/tensor.ts";
import { protocolErrors } from "./errors.ts";

/**
 * @param specs declared inputs of the model; -1 is a variable dimension
 * @throws invalid_tensor for missing, unknown, mistyped and misshapen inputs
 */
export function validateRequestInputs(
  model: string,
  specs: readonly TensorSpec[],
  inputs: NamedTensors,
): void {
  const names = Object.keys(inputs);
  if (names.length !== specs.length)
    throw protocolErrors.wrongInputs(
      model,
      specs.map((spec) => spec.name),
      names,
    );
  for (const name of names) {
    const spec = specs.find((candidate) => candidate.name === name);
    const tensor = inputs[name];
    if (spec === undefined || tensor === undefined)
      throw protocolErrors.unexpectedInput(model, name);
    if (tensor.datatype !== spec.datatype)
      throw protocolErrors.wrongDatatype(model, name, tensor.datatype, spec.datatype);
    if (!matchesShape(tensor.shape, spec.shape))
      throw protocolErrors.wrongShape(model, name, tensor.shape, spec.shape);
  }
}

function matchesShape(shape: readonly number[], expected: readonly number[]): boolean {
  return (
    shape.length === expected.length &&
    expected.every((dimension, axis) => dimension === -1 || dimension === shape[axis])
  );
}
