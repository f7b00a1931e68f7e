// Tensors and their datatypes, named as in the Open Inference Protocol v2. Data is row-major, in plain typed arrays.

import { coreErrors } from "./common-errors.ts";
import { typedArrays } from "./typed-arrays.ts";

export { typedArrays };

/** Type of `data` for each datatype. FP16 and BF16 are raw 16-bit patterns; a BYTES element is its bytes (text: UTF-8). */
export interface TensorDataByDatatype {
  BOOL: Uint8Array;
  UINT8: Uint8Array;
  UINT16: Uint16Array;
  UINT32: Uint32Array;
  UINT64: BigUint64Array;
  INT8: Int8Array;
  INT16: Int16Array;
  INT32: Int32Array;
  INT64: BigInt64Array;
  FP16: Uint16Array;
  BF16: Uint16Array;
  FP32: Float32Array;
  FP64: Float64Array;
  BYTES: readonly Uint8Array[];
}

export type Datatype = keyof TensorDataByDatatype;
export type NumericDatatype = Exclude<Datatype, "BYTES">;

export type TensorOf<D extends Datatype> = {
  [K in D]: {
    readonly datatype: K;
    readonly shape: readonly number[];
    readonly data: TensorDataByDatatype[K];
  };
}[D];
export type Tensor = TensorOf<Datatype>;
/** Tensors, keyed by input or output name. */
export type NamedTensors = Readonly<Record<string, Tensor>>;

/** Declaration of one model input or output; -1 is a variable dimension. */
export interface TensorSpec {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
}

export const DATATYPES = [
  ...(Object.keys(typedArrays satisfies { [D in NumericDatatype]: unknown }) as NumericDatatype[]),
  "BYTES",
] as const;

/**
 * Counts the elements of a shape.
 * @throws invalid_tensor for a negative or fractional dimension, or a product above 2^31 - 1
 */
export function countElements(name: string, shape: readonly number[]): number {
  let count = 1;
  for (const dimension of shape) {
    if (!Number.isSafeInteger(dimension) || dimension < 0)
      throw coreErrors.invalidTensor(name, `dimension ${dimension} is not a non-negative integer`);
    count *= dimension;
    if (count > 0x7fff_ffff)
      throw coreErrors.invalidTensor(name, `shape [${shape.join(", ")}] has too many elements`);
  }
  return count;
}

/** Narrows a tensor to FP32 with `rank` dimensions. @throws invalid_tensor */
export function expectFloat32Tensor(
  name: string,
  tensor: Tensor | undefined,
  rank: number,
): TensorOf<"FP32"> {
  if (tensor?.datatype !== "FP32" || tensor.shape.length !== rank) {
    throw coreErrors.invalidTensor(
      name,
      `expected FP32 of rank ${rank}, found ${tensor ? `${tensor.datatype} [${tensor.shape.join(", ")}]` : "nothing"}`,
    );
  }
  return tensor;
}
