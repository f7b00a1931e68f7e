// How the value at a cut is written in 8 bits: as the graph itself has it there, or else in the range with the least squared
// error on samples.

import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { constantOf, constantTensorOf } from "../onnx/constants.ts";
import { makerOf, soleReaderOf } from "../onnx/find.ts";
import { isOnnxNode } from "../onnx/nodes.ts";
import type { Model } from "../onnx/model-file.ts";
import { elementTypeOf, integersOf } from "../onnx/tensors.ts";
import { type Value, type ValueTable, valuesOf } from "../onnx/values.ts";
import { rangeOf } from "../quantise/calibration.ts";
import { Histogram } from "../quantise/histogram.ts";
import { observe } from "../quantise/observe.ts";
import { type Quantisation, quantisationOf } from "../quantise/scheme.ts";

/** @returns by the values' names @throws session_failed */
export async function findCrossings(
  runtime: Runtime,
  model: Model,
  values: readonly string[],
  samples: readonly NamedTensors[],
): Promise<Map<string, Quantisation>> {
  const table = valuesOf(model);
  const found = new Map<string, Quantisation>();
  const histograms = new Map<string, Histogram>();
  for (const name of values) {
    const own = ownQuantisation(
      table,
      table.values.find((value) => value.name === name),
    );
    if (own === undefined) histograms.set(name, new Histogram());
    else found.set(name, own);
  }
  if (histograms.size === 0) return found;
  await observe(runtime, model, [...histograms.keys()], samples, (observed) => {
    for (const [name, { data }] of observed) histograms.get(name)?.add(data);
  });
  for (const [name, histogram] of histograms)
    found.set(
      name,
      quantisationOf(rangeOf(histogram, { method: "mse" }), { type: "uint8", symmetric: false }),
    );
  return found;
}

/** The value in 8 bits, where the graph has it so before it makes it a real number of it, and by the same scale. */
export function quantisedForm(
  model: Model,
  name: string,
  crossing: Quantisation,
): string | undefined {
  const table = valuesOf(model);
  const value = table.values.find((one) => one.name === name);
  const node = makerOf(value, "DequantizeLinear");
  const own = node && ownQuantisation(table, value);
  const isSame =
    own?.scale === crossing.scale &&
    own.zeroPoint === crossing.zeroPoint &&
    own.type === crossing.type;
  return isSame ? node?.input[0] : undefined;
}

/** Of a value that comes out of 8 bits, or goes nowhere but into them: nothing is lost on the way then. */
function ownQuantisation(table: ValueTable, value: Value | undefined): Quantisation | undefined {
  const reader = soleReaderOf(value);
  const node =
    makerOf(value, "DequantizeLinear") ??
    (reader !== undefined && isOnnxNode(reader, "QuantizeLinear") ? reader : undefined);
  if (node === undefined) return undefined;
  const [, scaleValue, zeroValue] = table.inputsOf(node);
  const [scale, ...others] = constantOf(scaleValue) ?? [];
  const zero = constantTensorOf(zeroValue);
  const type = zero && elementTypeOf(zero.dataType);
  const [zeroPoint] = (zero && integersOf(zero)) ?? [];
  if (
    scale === undefined ||
    others.length > 0 ||
    zeroPoint === undefined ||
    (type !== "uint8" && type !== "int8")
  )
    return undefined;
  return { type, scale, zeroPoint };
}
