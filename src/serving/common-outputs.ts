// Common outputs: the outputs that all tiers of a cascade share, and tensors gathered from rows of several tiers.

import { byteView } from "../core/bytes.ts";
import { coreErrors } from "../core/common-errors.ts";
import {
  countElements,
  type NamedTensors,
  type Tensor,
  type TensorSpec,
  typedArrays,
} from "../core/tensor.ts";

interface TierOutputs {
  readonly outputs: readonly TensorSpec[];
}

/** Only rows of one fixed shape can be gathered into one tensor. */
const hasFixedRowShape = ({ shape: [rows, ...row] }: TensorSpec) =>
  rows === -1 && row.every((dimension) => dimension >= 0);
const isSameSpec = (left: TensorSpec, right: TensorSpec) =>
  left.name === right.name &&
  left.datatype === right.datatype &&
  String(left.shape) === String(right.shape);

export function commonOutputs([first, ...others]: readonly TierOutputs[]): TensorSpec[] {
  return (first?.outputs ?? []).filter(
    (spec) =>
      hasFixedRowShape(spec) &&
      others.every(({ outputs }) => outputs.some((other) => isSameSpec(spec, other))),
  );
}

/** One row of a graph's outputs. */
export interface OutputRow {
  readonly outputs: NamedTensors;
  readonly row: number;
}

/** @throws session_failed if a graph's outputs do not match its manifest */
export function gatherRows(specs: readonly TensorSpec[], rows: readonly OutputRow[]): NamedTensors {
  return Object.fromEntries(specs.map((spec) => [spec.name, gatherTensor(spec, rows)]));
}

function gatherTensor(
  { name, datatype, shape: [, ...rowShape] }: TensorSpec,
  rows: readonly OutputRow[],
): Tensor {
  const shape = [rows.length, ...rowShape];
  const width = countElements(name, rowShape);
  const sources = rows.map(({ outputs, row }) => ({ tensor: outputs[name], row }));
  const mismatch = sources.find(
    ({ tensor, row }) =>
      tensor?.datatype !== datatype ||
      String(tensor.shape.slice(1)) !== String(rowShape) ||
      row >= (tensor.shape[0] ?? 0),
  );
  if (mismatch !== undefined)
    throw coreErrors.sessionFailed(
      `output ${name} is ${describeTensor(mismatch.tensor)}, expected ${datatype} [-1, ${rowShape.join(", ")}]`,
    );
  if (datatype === "BYTES")
    return {
      datatype,
      shape,
      data: sources.flatMap(({ tensor, row }) =>
        tensor?.datatype === "BYTES" ? tensor.data.slice(row * width, (row + 1) * width) : [],
      ),
    };

  const ArrayType = typedArrays[datatype];
  const rowBytes = width * ArrayType.BYTES_PER_ELEMENT;
  const joined = new Uint8Array(rows.length * rowBytes);
  sources.forEach(({ tensor, row }, index) => {
    if (tensor !== undefined && tensor.datatype !== "BYTES")
      joined.set(
        byteView(tensor.data).subarray(row * rowBytes, (row + 1) * rowBytes),
        index * rowBytes,
      );
  });
  return { datatype, shape, data: new ArrayType(joined.buffer) } as Tensor;
}

const describeTensor = (tensor: Tensor | undefined) =>
  tensor === undefined ? "missing" : `${tensor.datatype} [${tensor.shape.join(", ")}]`;
