// The outputs that a cascade answers with, whichever tier each row's answer comes from: those that all its tiers have.

import { coreErrors } from "../core/common-errors.ts";
import { byteView } from "../core/bytes.ts";
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

/** Row by row, with rows of one fixed shape: others could not stand side by side in one tensor. */
const hasFixedRowShape = ({ shape: [rows, ...row] }: TensorSpec) =>
  rows === -1 && row.every((dimension) => dimension >= 0);
const isSameSpec = (one: TensorSpec, other: TensorSpec) =>
  one.name === other.name &&
  one.datatype === other.datatype &&
  String(one.shape) === String(other.shape);

export function commonOutputs([first, ...others]: readonly TierOutputs[]): TensorSpec[] {
  return (first?.outputs ?? []).filter(
    (spec) =>
      hasFixedRowShape(spec) &&
      others.every(({ outputs }) => outputs.some((other) => isSameSpec(spec, other))),
  );
}

/** One row of what a graph gave. */
export interface OutputRow {
  readonly outputs: NamedTensors;
  readonly row: number;
}

/** @throws session_failed where a graph did not give what its manifest says */
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
  const misfit = sources.find(
    ({ tensor, row }) =>
      tensor?.datatype !== datatype ||
      String(tensor.shape.slice(1)) !== String(rowShape) ||
      row >= (tensor.shape[0] ?? 0),
  );
  if (misfit !== undefined)
    throw coreErrors.sessionFailed(
      `output ${name} is ${describeTensor(misfit.tensor)}, expected ${datatype} [-1, ${rowShape.join(", ")}]`,
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
