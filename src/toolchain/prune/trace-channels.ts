// Traces channels from their producers to their last readers through the whole graph. The trace
// contains the channels that are removed together, the frozen channels and the reasons.

import { toolchainErrors } from "../errors.ts";
import { readConstantTensor } from "../onnx/constants.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxOp, displayNameOf } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import type { GraphProto, NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { datatypeOf } from "../onnx/tensor-conversion.ts";
import { elementTypeOf } from "../onnx/tensor-data.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import { type Value, type ValueTable, buildValueTable } from "../onnx/value-table.ts";
import { type Axes, type Axis, ChannelCoupling } from "./channel-coupling.ts";
import type { TensorShapes } from "./measure-shapes.ts";
import { findRule } from "./operator-rules.ts";
import type { Layer, Rewrite, BatchNormScale, RuleContext } from "./propagation-rule.ts";
import {
  withReaders,
  type ShapeElement,
  propagateShapeTensor,
  readConstantShapeTensor,
} from "./shape-tensor.ts";

/** Before opset 7, broadcasting depends on attributes and follows other rules. */
const MIN_OPSET = 7;

export interface ChannelTrace {
  readonly table: ValueTable;
  readonly coupling: ChannelCoupling;
  /** Axes of the main graph's values whose shapes are known. */
  readonly axes: ReadonlyMap<Value, Axes>;
  readonly layers: readonly Layer[];
  readonly scales: readonly BatchNormScale[];
  /** Axes that must not become empty: channels of layers and parts of Split. */
  readonly nonEmptyAxes: readonly Axis[];
  readonly rewrites: readonly Rewrite[];
}

/**
 * Sorts the model's nodes topologically.
 * @throws nothing_to_prune for an opset that is too old, invalid_model_file
 */
export function traceChannels(model: Model, shapes: TensorShapes): ChannelTrace {
  const opset = opsetsOf(model).get("") ?? 0;
  if (opset < MIN_OPSET)
    throw toolchainErrors.nothingToPrune([
      `the graph uses ONNX opset ${opset}; the oldest supported opset is ${MIN_OPSET}`,
    ]);
  sortTopologically(model);
  return new ChannelTracer(buildValueTable(model), model.graph, opset, shapes).trace();
}

class ChannelTracer implements ChannelTrace {
  readonly table: ValueTable;
  readonly coupling = new ChannelCoupling();
  readonly axes = new Map<Value, Axes>();
  readonly layers: Layer[] = [];
  readonly scales: BatchNormScale[] = [];
  readonly nonEmptyAxes: Axis[] = [];
  readonly rewrites: Rewrite[] = [];
  readonly #graph: GraphProto;
  readonly #opset: number;
  readonly #shapes: TensorShapes;
  readonly #sizes = new Map<Value, readonly ShapeElement[]>();

  constructor(table: ValueTable, graph: GraphProto, opset: number, shapes: TensorShapes) {
    this.table = table;
    this.#graph = graph;
    this.#opset = opset;
    this.#shapes = shapes;
  }

  trace(): ChannelTrace {
    const graphValues = this.table.values.filter(({ graph }) => graph === this.#graph);
    for (const value of graphValues) this.#addSource(value);
    for (const node of this.#graph.node) if (!isOnnxOp(node, "Constant")) this.#follow(node);
    for (const value of graphValues) {
      if (value.uses.some(({ kind, graph }) => kind === "output" && graph === this.#graph))
        this.#freeze(value, `the graph output ${value.name} contains the channels`);
      if (value.uses.some(({ graph }) => graph !== this.#graph))
        this.#freeze(value, `a subgraph reads ${value.name}`);
    }
    return this;
  }

  /** Adds the axes of a graph input or constant. */
  #addSource(value: Value): void {
    const tensor = readConstantTensor(value);
    const shape = tensor?.dims.map(Number) ?? this.#shapes.get(value.name);
    if (shape === undefined || (tensor === undefined && value.origin.kind !== "input")) return;
    const stored = editableTensorOf(value);
    this.axes.set(
      value,
      this.coupling.addAxes(
        shape,
        stored === undefined
          ? `${value.name}, which cannot be changed, has the same channels`
          : undefined,
      ),
    );
    const sizes =
      tensor &&
      readConstantShapeTensor(
        tensor,
        stored === undefined ? Number.POSITIVE_INFINITY : value.uses.length,
      );
    if (sizes !== undefined) this.#sizes.set(value, sizes);
  }

  #follow(node: NodeProto): void {
    const [inputs, outputs] = [this.table.inputsOf(node), this.table.outputsOf(node)];
    const [claimedInputs, claimedShapes] = [new Set<Value>(), new Set<Value>()];
    const step = this.#createContext(node, claimedInputs, claimedShapes);
    const rule = findRule(node);
    const hasShapes =
      inputs.every((value) => value === undefined || this.axes.has(value)) &&
      outputs.every((value) => value === undefined || this.#shapeOf(value) !== undefined);
    const outputAxes = hasShapes ? rule?.(step) : undefined;
    const sizes = propagateShapeTensor(
      node,
      (position) => this.#sizesOf(inputs[position]),
      inputs[0] && this.axes.get(inputs[0]),
    );
    const reason =
      outputAxes !== undefined
        ? `${step.label} needs all channels`
        : hasShapes
          ? `no pruning rule covers ${step.label}`
          : `the shapes of ${step.label} are unknown`;

    for (const value of inputs) {
      if (value === undefined) continue;
      if (outputAxes === undefined || !claimedInputs.has(value))
        this.coupling.freeze(this.axes.get(value) ?? [], reason);
      if (sizes === undefined && !claimedShapes.has(value))
        this.#freezeSizes(value, `${step.label} computes with the channel count`);
    }
    outputs.forEach((value, position) => {
      if (value === undefined) return;
      const shape = this.#shapeOf(value);
      const axes = outputAxes?.[position] ?? (shape && this.coupling.addAxes(shape, reason));
      if (axes !== undefined) this.axes.set(value, axes);
      if (sizes !== undefined)
        this.#sizes.set(
          value,
          sizes.map((size) => withReaders(size, value.uses.length)),
        );
    });
  }

  #createContext(
    node: NodeProto,
    claimedInputs: Set<Value>,
    claimedShapes: Set<Value>,
  ): RuleContext {
    const inputs = this.table.inputsOf(node);
    return {
      node,
      opset: this.#opset,
      coupling: this.coupling,
      label: `${node.opType} ${displayNameOf(node)}`,
      inputShapes: inputs.map((value) => value && this.#shapeOf(value)),
      outputShapes: this.table.outputsOf(node).map((value) => value && this.#shapeOf(value)),
      constant: (position) => readConstantTensor(inputs[position]),
      claimInput: (position) => {
        const value = inputs[position];
        if (value !== undefined) claimedInputs.add(value);
        return value && this.axes.get(value);
      },
      claimShapeTensor: (position) => {
        const value = inputs[position];
        if (value !== undefined) claimedShapes.add(value);
        return this.#sizesOf(value);
      },
      declareLayer: (position, axis, channels) =>
        this.#addLayer(node, editableTensorOf(inputs[position]), axis, channels),
      declareScale: (position, channels) => {
        const tensor = editableTensorOf(inputs[position]);
        if (tensor !== undefined && channels !== undefined) this.scales.push({ tensor, channels });
      },
      declareNonEmpty: (axis) => this.nonEmptyAxes.push(axis),
      onRemoval: (rewrite) => this.rewrites.push(rewrite),
    };
  }

  #addLayer(
    node: NodeProto,
    weights: TensorProto | undefined,
    axis: number,
    channels: Axis | undefined,
  ): void {
    if (weights === undefined || channels === undefined) return;
    const type = elementTypeOf(weights.dataType) ?? "unknown";
    if (type !== "float")
      this.coupling.freeze([channels], `the weights of ${displayNameOf(node)} have type ${type}`);
    this.layers.push({ node, weights, axis, channels });
    this.nonEmptyAxes.push(channels);
  }

  #shapeOf(value: Value): readonly number[] | undefined {
    return readConstantTensor(value)?.dims.map(Number) ?? this.#shapes.get(value.name);
  }

  #sizesOf(value: Value | undefined): readonly ShapeElement[] | undefined {
    return value && this.#sizes.get(value);
  }

  #freeze(value: Value, reason: string): void {
    this.coupling.freeze(this.axes.get(value) ?? [], reason);
    this.#freezeSizes(value, reason);
  }

  #freezeSizes(value: Value, reason: string): void {
    this.coupling.freeze(
      (this.#sizesOf(value) ?? []).map((size) => (size.kind === "axis" ? size.axis : undefined)),
      reason,
    );
  }
}

/**
 * Returns a constant that can be edited: an initializer or a Constant's tensor, with elements of
 * whole bytes.
 */
export function editableTensorOf(value: Value | undefined): TensorProto | undefined {
  const tensor = readConstantTensor(value);
  const datatype = tensor && datatypeOf(elementTypeOf(tensor.dataType) ?? "");
  if (datatype === undefined || datatype === "BYTES") return undefined;
  return value?.origin.kind === "node" && value.origin.node.attribute[0]?.t !== tensor
    ? undefined
    : tensor;
}
