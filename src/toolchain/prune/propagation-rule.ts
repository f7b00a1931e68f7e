// Interface between a propagation rule and the node that it processes (operator-rules.ts).

import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import type { Axes, Axis, ChannelCoupling } from "./channel-coupling.ts";
import type { ShapeElement } from "./shape-tensor.ts";

/** A node with constant weights and removable output channels. */
export interface Layer {
  readonly node: NodeProto;
  readonly weights: TensorProto;
  /** Axis of the weights that separates the output channels. */
  readonly axis: number;
  readonly channels: Axis;
}

/** Scale of a BatchNormalization, with one value for each channel. */
export interface BatchNormScale {
  readonly tensor: TensorProto;
  readonly channels: Axis;
}

/** Updates an attribute or a constant of sizes after the removal of channels. */
export type Rewrite = (context: RemovalContext) => void;

export interface RemovalContext {
  /** Number of remaining indices of the axis. */
  remainingSize(axis: Axis): number;
  /** Replaces an input of a node by a new INT64 constant. */
  setInt64Input(node: NodeProto, position: number, sizes: readonly number[]): void;
}

export interface RuleContext {
  readonly node: NodeProto;
  /** Opset of the ONNX domain. */
  readonly opset: number;
  readonly coupling: ChannelCoupling;
  readonly inputShapes: readonly (readonly number[] | undefined)[];
  readonly outputShapes: readonly (readonly number[] | undefined)[];
  /**
   * Returns the axes of an input and makes the rule responsible for them. Unclaimed inputs are
   * frozen.
   */
  claimInput(position: number): Axes | undefined;
  /** Returns the sizes in a shape input and makes the rule responsible for them. */
  claimShapeTensor(position: number): readonly ShapeElement[] | undefined;
  constant(position: number): TensorProto | undefined;
  /** Name of the node in freeze reasons. */
  readonly label: string;
  /** Declares that the channels are output channels of this node's weights. */
  declareLayer(position: number, axis: number, channels: Axis | undefined): void;
  declareScale(position: number, channels: Axis | undefined): void;
  /** Declares that an axis must keep at least one index. */
  declareNonEmpty(axis: Axis): void;
  onRemoval(rewrite: Rewrite): void;
}

/**
 * @returns the axes of the node's outputs; undefined if the rule does not cover this use of the
 *   operator
 */
export type PropagationRule = (step: RuleContext) => readonly Axes[] | undefined;
