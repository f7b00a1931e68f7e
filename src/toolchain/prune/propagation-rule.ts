// What a rule sees of one node, and what it says about it: see operator-rules.ts.

import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import type { Axes, Axis, ChannelCoupling } from "./channel-coupling.ts";
import type { ShapeElement } from "./shape-tensor.ts";

/** A node with constant weights whose output channels can be removed. */
export interface Layer {
  readonly node: NodeProto;
  readonly weights: TensorProto;
  /** That of the weights along which one channel's lie apart from the next one's. */
  readonly axis: number;
  readonly channels: Axis;
}

/** A BatchNormalization's scale, one number for each channel. */
export interface BatchNormScale {
  readonly tensor: TensorProto;
  readonly channels: Axis;
}

/** Brings an attribute or a constant of sizes up to date after channels have gone. */
export type Rewrite = (after: RemovalContext) => void;

export interface RemovalContext {
  /** How many indices of the axis are left. */
  remainingSize(axis: Axis): number;
  /** Lets a node read a new constant of INT64. */
  setInt64Input(node: NodeProto, position: number, sizes: readonly number[]): void;
}

export interface RuleContext {
  readonly node: NodeProto;
  /** The version of ONNX's operators. */
  readonly opset: number;
  readonly coupling: ChannelCoupling;
  readonly inputShapes: readonly (readonly number[] | undefined)[];
  readonly outputShapes: readonly (readonly number[] | undefined)[];
  /** The axes of an input, for which the rule answers from then on: what no rule takes stays as it is. */
  claimInput(position: number): Axes | undefined;
  /** An input that is made of sizes: likewise. */
  claimShapeTensor(position: number): readonly ShapeElement[] | undefined;
  constant(position: number): TensorProto | undefined;
  /** How the node is called in reasons. */
  readonly label: string;
  /** Says that the channels are this node's to remove. */
  declareLayer(position: number, axis: number, channels: Axis | undefined): void;
  declareScale(position: number, channels: Axis | undefined): void;
  /** An axis that must keep at least one index. */
  declareNonEmpty(axis: Axis): void;
  onRemoval(rewrite: Rewrite): void;
}

/** @returns the axes of the node's outputs; undefined where the rule does not cover this use of the operator */
export type PropagationRule = (step: RuleContext) => readonly Axes[] | undefined;
