// What an edge tier has computed of a request, for a region to go on from: where that is less to send than the inputs are.

import { asEdgeTierError } from "../core/errors.ts";
import { byteView } from "../core/bytes.ts";
import type { NamedTensors, Tensor } from "../core/tensor.ts";
import type { RegionCall, RegionClient } from "../region/region-client.ts";
import type { Resumption } from "../registry/manifest.ts";
import type { TaskInput } from "../tasks/task.ts";
import { gatherRows } from "./common-outputs.ts";

/** An edge tier's run of this request: what its graph was given and gave, a row for each of `inputs`. */
export interface PartialRun {
  readonly inputs: readonly TaskInput[];
  readonly tensors: NamedTensors;
}

export interface ResumableCall {
  readonly createCall: () => RegionCall & { readonly tier: string };
  readonly inputs: readonly TaskInput[];
  readonly toBytes: (input: TaskInput) => Uint8Array;
  /** Of the edge tier that the region tier resumes, if it got that far. */
  readonly partialRun: PartialRun | undefined;
}

/**
 * Asks one tier of a region, by the inputs themselves or by what an edge tier has made of them.
 * @param resumes of the tier; without it, the inputs are always sent
 */
export function createResumableRegionCall(
  region: RegionClient,
  resumes: Resumption | undefined,
): (run: ResumableCall, signal: AbortSignal) => Promise<NamedTensors> {
  /** Set by a region that refuses to go on and answers to the inputs: one that does not know of it. */
  let isRefused = false;

  return async ({ createCall: call, inputs, toBytes, partialRun: begun }, signal) => {
    const bytes = inputs.map(toBytes);
    const infer = () => region.infer({ ...call(), inputs: bytes }, signal);
    const tensors =
      resumes === undefined || isRefused ? undefined : gatherPartialTensors(resumes, inputs, begun);
    if (tensors === undefined || encodedBytes(tensors) >= encodedElementsBytes(bytes))
      return await infer();
    try {
      return await region.resume({ ...call(), tensors, rows: inputs.length }, signal);
    } catch (error) {
      if (asEdgeTierError(error).code !== "region_refused") throw error;
      const outputs = await infer();
      isRefused = true;
      return outputs;
    }
  };
}

/** Of these inputs, in their order; undefined unless the edge tier's run had all of them. */
function gatherPartialTensors(
  resumes: Resumption,
  inputs: readonly TaskInput[],
  begun: PartialRun | undefined,
): NamedTensors | undefined {
  if (begun === undefined) return undefined;
  const specs = resumes.inputs.map(({ name, datatype }) => ({
    name,
    datatype,
    shape: begun.tensors[name]?.shape ?? [],
  }));
  const rows = inputs.map((input) => ({
    outputs: begun.tensors,
    row: begun.inputs.indexOf(input),
  }));
  const isWhole =
    rows.every(({ row }) => row >= 0) &&
    specs.every(({ name, datatype }) => begun.tensors[name]?.datatype === datatype);
  return isWhole ? gatherRows(specs, rows) : undefined;
}

const encodedBytes = (tensors: NamedTensors): number =>
  Object.values(tensors).reduce((sum, tensor) => sum + encodedTensorBytes(tensor), 0);
const encodedTensorBytes = (tensor: Tensor): number =>
  tensor.datatype === "BYTES"
    ? encodedElementsBytes(tensor.data)
    : byteView(tensor.data).byteLength;
/** Each goes with its length, of 4 bytes. */
const encodedElementsBytes = (texts: readonly Uint8Array[]): number =>
  texts.reduce((sum, { byteLength }) => sum + 4 + byteLength, 0);
