// Activation quantization: chooses how the value at a cut is written in 8 bits. If the graph has the value in 8 bits
// already, its scale is used; otherwise the range with the least squared error on samples.

import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { readFloatConstant, readConstantTensor } from "../onnx/constants.ts";
import { producerOf, soleConsumerOf } from "../onnx/graph-queries.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxOp } from "../onnx/nodes.ts";
import { elementTypeOf, readIntegers } from "../onnx/tensor-data.ts";
import { type Value, type ValueTable, buildValueTable } from "../onnx/value-table.ts";
import { captureActivations } from "../quantize/capture-activations.ts";
import { Histogram } from "../quantize/histogram.ts";
import {
  type QuantizationParams,
  computeQuantizationParams,
} from "../quantize/quantization-scheme.ts";
import { selectRange } from "../quantize/range-selection.ts";

/** @returns parameters by value name @throws session_failed */
export async function chooseActivationQuantization(
  runtime: Runtime,
  model: Model,
  values: readonly string[],
  samples: readonly NamedTensors[],
): Promise<Map<string, QuantizationParams>> {
  const table = buildValueTable(model);
  const found = new Map<string, QuantizationParams>();
  const histograms = new Map<string, Histogram>();
  for (const name of values) {
    const existing = readExistingQuantization(
      table,
      table.values.find((value) => value.name === name),
    );
    if (existing === undefined) histograms.set(name, new Histogram());
    else found.set(name, existing);
  }
  if (histograms.size === 0) return found;
  await captureActivations(runtime, model, [...histograms.keys()], samples, (observed) => {
    for (const [name, { data }] of observed) histograms.get(name)?.add(data);
  });
  for (const [name, histogram] of histograms)
    found.set(
      name,
      computeQuantizationParams(selectRange(histogram, { kind: "mse" }), {
        type: "uint8",
        symmetric: false,
      }),
    );
  return found;
}

/** Returns the 8-bit value that the graph dequantizes to the named value, if both have the same parameters. */
export function findQuantizedValue(
  model: Model,
  name: string,
  params: QuantizationParams,
): string | undefined {
  const table = buildValueTable(model);
  const value = table.values.find((candidate) => candidate.name === name);
  const node = producerOf(value, "DequantizeLinear");
  const existing = node && readExistingQuantization(table, value);
  const isSame =
    existing?.scale === params.scale &&
    existing.zeroPoint === params.zeroPoint &&
    existing.type === params.type;
  return isSame ? node?.input[0] : undefined;
}

/** Reads the parameters of a value that is dequantized, or only quantized. Crossing the cut then loses nothing. */
function readExistingQuantization(
  table: ValueTable,
  value: Value | undefined,
): QuantizationParams | undefined {
  const reader = soleConsumerOf(value);
  const node =
    producerOf(value, "DequantizeLinear") ??
    (reader !== undefined && isOnnxOp(reader, "QuantizeLinear") ? reader : undefined);
  if (node === undefined) return undefined;
  const [, scaleValue, zeroValue] = table.inputsOf(node);
  const [scale, ...others] = readFloatConstant(scaleValue) ?? [];
  const zero = readConstantTensor(zeroValue);
  const type = zero && elementTypeOf(zero.dataType);
  const [zeroPoint] = (zero && readIntegers(zero)) ?? [];
  if (
    scale === undefined ||
    others.length > 0 ||
    zeroPoint === undefined ||
    (type !== "uint8" && type !== "int8")
  )
    return undefined;
  return { type, scale, zeroPoint };
}
