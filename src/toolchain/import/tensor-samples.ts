// Reads tensor samples from JSON lines or from a folder. The lines follow the Open Inference
// Protocol; the folder follows the layout of ONNX's own test data (test_data_set_0/input_0.pb),
// including its outputs.

import { readdir, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import * as z from "zod";
import { formatZodIssues } from "../../core/config.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import {
  countElements,
  type NamedTensors,
  type Tensor,
  type TensorSpec,
  typedArrays,
} from "../../core/tensor.ts";
import { TensorProtoSchema } from "../onnx/proto/onnx_pb.js";
import { toTensor } from "../onnx/tensor-conversion.ts";
import { findDataProblem } from "../onnx/tensor-data.ts";
import { importErrors } from "./errors.ts";

export interface TensorSample {
  readonly inputs: NamedTensors;
  /** The expected outputs, if the sample declares them. */
  readonly outputs: NamedTensors;
}

const elementSchema = z.union([z.number(), z.boolean(), z.string()]);
interface Nested extends ReadonlyArray<z.output<typeof elementSchema> | Nested> {}
const nestedSchema: z.ZodType<Nested> = z.array(
  z.union([elementSchema, z.lazy(() => nestedSchema)]),
);
const tensorSchema = z.object({
  name: z.string(),
  shape: z.array(z.int().min(0)),
  data: nestedSchema,
});
const lineSchema = z.object({
  inputs: z.array(tensorSchema).min(1),
  outputs: z.array(tensorSchema).default([]),
});

export interface TensorSpecs {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

/** @throws invalid_tensor_samples */
export async function readTensorSamples(
  path: string,
  ports: TensorSpecs,
  limit = Number.POSITIVE_INFINITY,
): Promise<TensorSample[]> {
  try {
    const isFolder = (await stat(path)).isDirectory();
    const samples = isFolder
      ? await readSampleFolder(path, ports, limit)
      : parseSampleLines(await readFile(path, "utf8"), ports, limit);
    if (samples.length === 0) throw importErrors.invalidTensorSamples(path, "it is empty");
    return samples;
  } catch (error) {
    throw error instanceof EdgeTierError && error.code === "invalid_tensor_samples"
      ? error
      : importErrors.invalidTensorSamples(
          path,
          error instanceof EdgeTierError ? error.detail.replace(/\.$/, "") : reasonOf(error),
        );
  }
}

function parseSampleLines(
  text: string,
  { inputs, outputs }: TensorSpecs,
  limit: number,
): TensorSample[] {
  const lines = text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(0, limit);
  return lines.map((line, index) => {
    const parsed = lineSchema.safeParse(JSON.parse(line));
    if (!parsed.success) throw new Error(`line ${index + 1}: ${formatZodIssues(parsed.error)[0]}`);
    const toTensors = (
      entries: readonly z.output<typeof tensorSchema>[],
      specs: readonly TensorSpec[],
    ) => Object.fromEntries(entries.map((entry) => [entry.name, toTypedTensor(entry, specs)]));
    return {
      inputs: toTensors(parsed.data.inputs, inputs),
      outputs: toTensors(parsed.data.outputs, outputs),
    };
  });
}

function toTypedTensor(
  { name, shape, data }: z.output<typeof tensorSchema>,
  specs: readonly TensorSpec[],
): Tensor {
  const datatype = specs.find((spec) => spec.name === name)?.datatype;
  if (datatype === undefined)
    throw new Error(
      `the model has no tensor ${JSON.stringify(name)}; it has ${specs.map((spec) => spec.name).join(", ")}`,
    );
  const flat = flatten(data);
  if (flat.length !== countElements(name, shape))
    throw new Error(
      `${JSON.stringify(name)} has ${flat.length} elements, but its shape has ${countElements(name, shape)}`,
    );
  if (datatype === "BYTES")
    return { datatype, shape, data: flat.map((text) => new TextEncoder().encode(String(text))) };
  if (datatype === "FP16" || datatype === "BF16")
    throw new Error(
      `${JSON.stringify(name)} is ${datatype}, which JSON cannot represent; use a .pb file`,
    );
  const array = new typedArrays[datatype](flat.length);
  flat.forEach((value, index) => {
    if (array instanceof BigInt64Array || array instanceof BigUint64Array)
      array[index] = BigInt(value);
    else array[index] = Number(value);
  });
  return { datatype, shape, data: array } as Tensor;
}

const flatten = (data: Nested): z.output<typeof elementSchema>[] =>
  data.flatMap((item) =>
    Array.isArray(item) ? flatten(item) : [item as z.output<typeof elementSchema>],
  );

/** Reads the folder itself, or each subfolder that contains inputs. */
async function readSampleFolder(
  folder: string,
  ports: TensorSpecs,
  limit: number,
): Promise<TensorSample[]> {
  const names = (await readdir(folder, { recursive: true })).filter((name) =>
    /^(?:in|out)put_\d+\.pb$/.test(basename(name)),
  );
  const sets = Map.groupBy(names, (name) => join(name, ".."));
  const samples: TensorSample[] = [];
  for (const setFolder of [...sets.keys()]
    .toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }))
    .slice(0, limit)) {
    const read = async (kind: "input" | "output", specs: readonly TensorSpec[]) => {
      const files = (sets.get(setFolder) ?? [])
        .filter((name) => basename(name).startsWith(kind))
        .toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }));
      return Object.fromEntries(
        await Promise.all(
          files.map(async (name, index) => await readTensorFile(join(folder, name), index, specs)),
        ),
      );
    };
    samples.push({
      inputs: await read("input", ports.inputs),
      outputs: await read("output", ports.outputs),
    });
  }
  return samples;
}

/** Names the tensor by its own name, or else by the model's tensor at its position. */
async function readTensorFile(
  path: string,
  index: number,
  specs: readonly TensorSpec[],
): Promise<[string, Tensor]> {
  const proto = fromBinary(TensorProtoSchema, await readFile(path));
  const problem =
    proto.externalData.length > 0 ? "has its data in a separate file" : findDataProblem(proto);
  const tensor = problem === undefined ? toTensor(proto) : undefined;
  if (tensor === undefined)
    throw new Error(`${path} ${problem ?? "has a type that sessions do not support"}`);
  const name = specs.some((spec) => spec.name === proto.name) ? proto.name : specs[index]?.name;
  if (name === undefined) throw new Error(`${path} exceeds the number of tensors of the model`);
  return [name, tensor];
}
