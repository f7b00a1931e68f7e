// Partial run: lets a region tier resume from an edge tier's tensors, if these are smaller than the inputs.

import { byteView } from "../core/bytes.ts";
import { asEdgeTierError } from "../core/errors.ts";
import type { NamedTensors, Tensor } from "../core/tensor.ts";
import type { RegionCall, RegionClient } from "../region/region-client.ts";
import type { Resumption } from "../registry/manifest.ts";
import type { TaskInput } from "../tasks/task.ts";
import { gatherRows } from "./common-outputs.ts";

/** Inputs and outputs of an edge tier's graph in this request, with one row for each of `inputs`. */
export interface PartialRun {
  readonly inputs: readonly TaskInput[];
  readonly tensors: NamedTensors;
}

export interface ResumableCall {
  readonly createCall: () => RegionCall & { readonly tier: string };
  readonly inputs: readonly TaskInput[];
  readonly toBytes: (input: TaskInput) => Uint8Array;
  /** Run of the edge tier that the region tier resumes; undefined if that tier has not run. */
  readonly partialRun: PartialRun | undefined;
}

/**
 * Calls one tier of a region with the inputs, or with the tensors of an edge tier.
 * @param resumes the tier's resumption; without it, the call always sends the inputs
 */
export function createResumableRegionCall(
  region: RegionClient,
  resumes: Resumption | undefined,
): (run: ResumableCall, signal: AbortSignal) => Promise<NamedTensors> {
  /** Set if a region rejects the tensors but accepts the inputs, because it does not support resumption. */
  let isUnsupported = false;

  return async ({ createCall, inputs, toBytes, partialRun }, signal) => {
    const bytes = inputs.map(toBytes);
    const infer = () => region.infer({ ...createCall(), inputs: bytes }, signal);
    const tensors =
      resumes === undefined || isUnsupported
        ? undefined
        : gatherPartialTensors(resumes, inputs, partialRun);
    if (tensors === undefined || encodedBytes(tensors) >= encodedElementsBytes(bytes))
      return await infer();
    try {
      return await region.resume({ ...createCall(), tensors, rows: inputs.length }, signal);
    } catch (error) {
      if (asEdgeTierError(error).code !== "region_refused") throw error;
      const outputs = await infer();
      isUnsupported = true;
      return outputs;
    }
  };
}

/** @returns the tensors in the order of `inputs`; undefined unless the edge tier ran all of them */
function gatherPartialTensors(
  resumes: Resumption,
  inputs: readonly TaskInput[],
  partialRun: PartialRun | undefined,
): NamedTensors | undefined {
  if (partialRun === undefined) return undefined;
  const specs = resumes.inputs.map(({ name, datatype }) => ({
    name,
    datatype,
    shape: partialRun.tensors[name]?.shape ?? [],
  }));
  const rows = inputs.map((input) => ({
    outputs: partialRun.tensors,
    row: partialRun.inputs.indexOf(input),
  }));
  const isComplete =
    rows.every(({ row }) => row >= 0) &&
    specs.every(({ name, datatype }) => partialRun.tensors[name]?.datatype === datatype);
  return isComplete ? gatherRows(specs, rows) : undefined;
}

const encodedBytes = (tensors: NamedTensors): number =>
  Object.values(tensors).reduce((sum, tensor) => sum + encodedTensorBytes(tensor), 0);
const encodedTensorBytes = (tensor: Tensor): number =>
  tensor.datatype === "BYTES"
    ? encodedElementsBytes(tensor.data)
    : byteView(tensor.data).byteLength;
/** Each element has a length prefix of 4 bytes. */
const encodedElementsBytes = (texts: readonly Uint8Array[]): number =>
  texts.reduce((sum, { byteLength }) => sum + 4 + byteLength, 0);
