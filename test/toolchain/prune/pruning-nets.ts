// Small graphs for channel pruning, whose results can be worked out by hand.
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import type { NodeProto, TensorProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import {
  pruneChannels,
  type PruneChannelsOptions,
} from "../../../src/toolchain/prune/prune-channels.ts";
import { floatTensor, model } from "../onnx/model-builders.ts";
import { cloneModel, measureDifference, measureModelShapes } from "./model-runs.ts";

/** Creates convolution weights. All weights of channel c are `values[c]`. */
export const filters = (
  name: string,
  values: readonly number[],
  inputs: number,
  side = 1,
): TensorProto =>
  floatTensor(
    name,
    values.flatMap((value) => Array.from({ length: inputs * side * side }, () => value)),
    [values.length, inputs, side, side],
  );

export interface NetParts {
  readonly nodes: readonly NodeProto[];
  readonly constants: readonly TensorProto[];
  readonly inputs?: readonly string[];
  readonly outputs?: readonly string[];
  readonly valueInfo?: readonly string[];
  readonly opset?: number;
  readonly domains?: readonly string[];
}
export const net = (parts: NetParts): Model =>
  model({ inputs: ["x: float [N, 2, 4, 4]"], outputs: ["y: float [N, K, H, W]"], ...parts });

/**
 * Prunes a copy, to any number of channels unless `options` differ, and checks that the result
 * runs.
 */
export async function prune(original: Model, options: PruneChannelsOptions = { ratio: 0.5 }) {
  const after = cloneModel(original);
  const report = pruneChannels(after, await measureModelShapes(original), {
    multiple: 1,
    ...options,
  });
  await measureDifference(original, after);
  return { after, ...report };
}

/** Reasons of unprunable layers, as reports state them. */
export const REASONS = {
  graphOutput: (name: string) => `the graph output ${name} contains the channels`,
  fixedValue: (name: string) => `${name}, which cannot be changed, has the same channels`,
  shapeInput: (node: string) => `the shape input of ${node} contains the channel count`,
  channelCount: (node: string) => `${node} computes with the channel count`,
  noRule: (node: string) => `no pruning rule covers ${node}`,
  combines: (node: string) => `${node} combines elements along the axis`,
  selects: (node: string) => `${node} selects channels by index`,
  resizes: (node: string) => `${node} changes the size of the axis`,
  subgraph: (name: string) => `a subgraph reads ${name}`,
  noBatchNormalization: "no BatchNormalization follows the layer",
} as const;
