// Inputs for runs that nobody asked for: they allocate and plan before a client's run has to.

import { elementCount, type NamedTensors, type Tensor, type TensorSpec, typedArrays } from "../../core/tensor.ts";

/** Zeros and empty texts, with `rows` for the first dimension and 1 for every other that is variable. */
export function zeroInputs(specs: readonly TensorSpec[], rows = 1): NamedTensors {
  return Object.fromEntries(specs.map((spec) => [spec.name, zeros(spec, rows)]));
}

function zeros({ name, datatype, shape: declared }: TensorSpec, rows: number): Tensor {
  const shape = declared.map((dimension, axis) => (dimension !== -1 ? dimension : axis === 0 ? rows : 1));
  const count = elementCount(name, shape);
  if (datatype === "BYTES") return { datatype, shape, data: Array.from({ length: count }, () => new Uint8Array()) };
  return { datatype, shape, data: new typedArrays[datatype](count) } as Tensor;
}
