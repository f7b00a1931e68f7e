// What each operator does to channels: which axes of its inputs and outputs have the same indices, and which cannot lose
// any. What has no rule keeps all channels that reach it.

import { readIntAttribute } from "../onnx/graph-queries.ts";
import { domainOf } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import type { Axes } from "./channel-coupling.ts";
import { layerRules } from "./layer-rules.ts";
import { normalizeAxis, readIntegers } from "./read-integers.ts";
import { shapeRules } from "./shape-rules.ts";
import type { PropagationRule, RuleContext } from "./propagation-rule.ts";

/** @returns undefined for an operator that has none */
export function findRule(node: NodeProto): PropagationRule | undefined {
  const domain = domainOf(node);
  return domain === ""
    ? rules.get(node.opType)
    : domain === "com.microsoft"
      ? contribOpRules.get(node.opType)
      : undefined;
}

/** Element by element, with inputs made larger as in NumPy. */
function elementwise(step: RuleContext): Axes[] | undefined {
  const inputs = step.inputShapes.map((shape, position) =>
    shape === undefined ? [] : (step.claimInput(position) ?? []),
  );
  return step.outputShapes.map((shape = []) =>
    shape.map((size, at) => {
      const axes = inputs
        .flatMap((axes) => axes[axes.length - shape.length + at] ?? [])
        .filter(({ length }) => length === size);
      return axes.length === 0
        ? step.coupling.addAxis(size, `${step.label} makes them`)
        : axes.reduce((all, axis) => step.coupling.couple(all, axis) ?? all);
    }),
  );
}

/** Each channel by itself, over all positions. */
function channelwise(step: RuleContext): Axes[] | undefined {
  const [batch, channels, ...places] = step.claimInput(0) ?? [];
  if (step.outputShapes.length > 1) return undefined; // MaxPool's indices count channels, too
  step.coupling.freeze(places, `${step.label} goes over them`);
  return step.outputShapes.map((shape = []) => [
    batch,
    channels,
    ...step.coupling.addAxes(shape.slice(2), `${step.label} goes over them`),
  ]);
}

/** Each channel by itself, with constants for each. */
function normalization(step: RuleContext): Axes[] | undefined {
  const x = step.claimInput(0);
  const channels = x?.[1];
  for (let position = 1; position < step.inputShapes.length; position++)
    step.coupling.couple(channels, step.claimInput(position)?.[0]);
  if (x === undefined || step.outputShapes.length > 1) return undefined;
  step.declareScale(1, channels);
  return [x];
}

/** Along some axes, elements depend on each other. */
const mixingAlong =
  (axesOf: (step: RuleContext, rank: number) => readonly number[]): PropagationRule =>
  (step) => {
    const x = step.claimInput(0);
    if (x === undefined) return undefined;
    for (const at of axesOf(step, x.length))
      step.coupling.freeze([x[at]], `${step.label} works across them`);
    return step.outputShapes.map((shape = [], position) =>
      position === 0 ? x : step.coupling.addAxes(shape, `${step.label} makes them`),
    );
  };

const axesFrom = (first: number, rank: number): number[] =>
  Array.from({ length: rank }, (_, at) => at).slice(first);
/** Before version 13, it flattened what is behind the axis. */
const softmax = mixingAlong((step, rank) =>
  step.opset < 13
    ? axesFrom(readIntAttribute(step.node, "axis", 1), rank)
    : [normalizeAxis(readIntAttribute(step.node, "axis", -1), rank)],
);
/** Neighbouring channels, or groups of them. */
const mixingChannels = mixingAlong(() => [1]);
const layerNormalization = mixingAlong((step, rank) =>
  axesFrom(readIntAttribute(step.node, "axis", -1), rank),
);

/** @param sums whether a channel of zeros does not count */
const reduction =
  (sums: boolean): PropagationRule =>
  (step) => {
    const x = step.claimInput(0);
    const axes = readIntegers(step, "axes", 1)?.map((axis) => normalizeAxis(axis, x?.length ?? 0));
    if (x === undefined || axes === undefined || axes.length === 0) return undefined;
    if (!sums)
      step.coupling.freeze(
        axes.map((at) => x[at]),
        `${step.label} works across them`,
      );
    const keeps = readIntAttribute(step.node, "keepdims", 1) !== 0;
    return [x.flatMap((axis, at) => (!axes.includes(at) ? [axis] : keeps ? [undefined] : []))];
  };

/** Tells sizes only, which `shape-tensor.ts` looks after. */
function shape(step: RuleContext): Axes[] {
  step.claimInput(0);
  return step.outputShapes.map((sizes = []) =>
    step.coupling.addAxes(sizes, `${step.label} makes them`),
  );
}

const ELEMENTWISE = [
  "Abs",
  "Acos",
  "Acosh",
  "Add",
  "And",
  "Asin",
  "Asinh",
  "Atan",
  "Atanh",
  "Cast",
  "CastLike",
  "Ceil",
  "Celu",
  "Clip",
  "Cos",
  "Cosh",
  "Div",
  "Dropout",
  "Elu",
  "Equal",
  "Erf",
  "Exp",
  "Floor",
  "Gelu",
  "Greater",
  "GreaterOrEqual",
  "HardSigmoid",
  "HardSwish",
  "Identity",
  "IsInf",
  "IsNaN",
  "LeakyRelu",
  "Less",
  "LessOrEqual",
  "Log",
  "Max",
  "Mean",
  "Min",
  "Mish",
  "Mod",
  "Mul",
  "Neg",
  "Not",
  "Or",
  "Pow",
  "PRelu",
  "Reciprocal",
  "Relu",
  "Round",
  "Selu",
  "Shrink",
  "Sigmoid",
  "Sign",
  "Sin",
  "Sinh",
  "Softplus",
  "Softsign",
  "Sqrt",
  "Sub",
  "Sum",
  "Swish",
  "Tan",
  "Tanh",
  "ThresholdedRelu",
  "Where",
  "Xor",
];

const rules = new Map<string, PropagationRule>([
  ...ELEMENTWISE.map((op): [string, PropagationRule] => [op, elementwise]),
  ...["AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool"].map(
    (op): [string, PropagationRule] => [op, channelwise],
  ),
  ...["ReduceL1", "ReduceL2", "ReduceSum", "ReduceSumSquare"].map(
    (op): [string, PropagationRule] => [op, reduction(true)],
  ),
  ...["ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"].map(
    (op): [string, PropagationRule] => [op, reduction(false)],
  ),
  ["BatchNormalization", normalization],
  ["InstanceNormalization", normalization],
  ["LayerNormalization", layerNormalization],
  ["RMSNormalization", layerNormalization],
  ["LRN", mixingChannels],
  ["GroupNormalization", mixingChannels],
  ["LogSoftmax", softmax],
  ["Hardmax", softmax],
  ["Softmax", softmax],
  ["Shape", shape],
  ...layerRules,
  ...shapeRules,
]);

/** Of ONNX Runtime's own operators, those that its optimiser puts between layers. */
const contribOpRules = new Map(
  ["BiasGelu", "FastGelu", "Gelu", "QuickGelu"].map((op): [string, PropagationRule] => [
    op,
    elementwise,
  ]),
);
