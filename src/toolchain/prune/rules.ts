// What each operator does to channels: which axes of its inputs and outputs have the same indices, and which cannot lose
// any. What has no rule keeps all channels that reach it.

import { intOf } from "../onnx/find.ts";
import { domainOf } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import type { Axes } from "./coupling.ts";
import { layerRules } from "./layer-rules.ts";
import { fromFront, integers } from "./rule-inputs.ts";
import { shapeRules } from "./shape-rules.ts";
import type { Rule, Step } from "./step.ts";

/** @returns undefined for an operator that has none */
export function ruleOf(node: NodeProto): Rule | undefined {
  const domain = domainOf(node);
  return domain === ""
    ? rules.get(node.opType)
    : domain === "com.microsoft"
      ? contribRules.get(node.opType)
      : undefined;
}

/** Element by element, with inputs made larger as in NumPy. */
function elementwise(step: Step): Axes[] | undefined {
  const inputs = step.inputShapes.map((shape, position) =>
    shape === undefined ? [] : (step.take(position) ?? []),
  );
  return step.outputShapes.map((shape = []) =>
    shape.map((size, at) => {
      const axes = inputs
        .flatMap((axes) => axes[axes.length - shape.length + at] ?? [])
        .filter(({ length }) => length === size);
      return axes.length === 0
        ? step.coupling.axis(size, `${step.label} makes them`)
        : axes.reduce((all, axis) => step.coupling.join(all, axis) ?? all);
    }),
  );
}

/** Each channel by itself, over all positions. */
function channelwise(step: Step): Axes[] | undefined {
  const [batch, channels, ...places] = step.take(0) ?? [];
  if (step.outputShapes.length > 1) return undefined; // MaxPool's indices count channels, too
  step.coupling.freeze(places, `${step.label} goes over them`);
  return step.outputShapes.map((shape = []) => [
    batch,
    channels,
    ...step.coupling.axes(shape.slice(2), `${step.label} goes over them`),
  ]);
}

/** Each channel by itself, with constants for each. */
function normalisation(step: Step): Axes[] | undefined {
  const x = step.take(0);
  const channels = x?.[1];
  for (let position = 1; position < step.inputShapes.length; position++)
    step.coupling.join(channels, step.take(position)?.[0]);
  if (x === undefined || step.outputShapes.length > 1) return undefined;
  step.isScale(1, channels);
  return [x];
}

/** Along some axes, elements depend on each other. */
const across =
  (axesOf: (step: Step, rank: number) => readonly number[]): Rule =>
  (step) => {
    const x = step.take(0);
    if (x === undefined) return undefined;
    for (const at of axesOf(step, x.length))
      step.coupling.freeze([x[at]], `${step.label} works across them`);
    return step.outputShapes.map((shape = [], position) =>
      position === 0 ? x : step.coupling.axes(shape, `${step.label} makes them`),
    );
  };

const from = (first: number, rank: number): number[] =>
  Array.from({ length: rank }, (_, at) => at).slice(first);
/** Before version 13, it flattened what is behind the axis. */
const softmax = across((step, rank) =>
  step.opset < 13
    ? from(intOf(step.node, "axis", 1), rank)
    : [fromFront(intOf(step.node, "axis", -1), rank)],
);
/** Neighbouring channels, or groups of them. */
const acrossChannels = across(() => [1]);
const layerNormalisation = across((step, rank) => from(intOf(step.node, "axis", -1), rank));

/** @param sums whether a channel of zeros does not count */
const reduction =
  (sums: boolean): Rule =>
  (step) => {
    const x = step.take(0);
    const axes = integers(step, "axes", 1)?.map((axis) => fromFront(axis, x?.length ?? 0));
    if (x === undefined || axes === undefined || axes.length === 0) return undefined;
    if (!sums)
      step.coupling.freeze(
        axes.map((at) => x[at]),
        `${step.label} works across them`,
      );
    const keeps = intOf(step.node, "keepdims", 1) !== 0;
    return [x.flatMap((axis, at) => (!axes.includes(at) ? [axis] : keeps ? [undefined] : []))];
  };

/** Tells sizes only, which `sizes.ts` looks after. */
function shape(step: Step): Axes[] {
  step.take(0);
  return step.outputShapes.map((sizes = []) =>
    step.coupling.axes(sizes, `${step.label} makes them`),
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

const rules = new Map<string, Rule>([
  ...ELEMENTWISE.map((op): [string, Rule] => [op, elementwise]),
  ...["AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool"].map(
    (op): [string, Rule] => [op, channelwise],
  ),
  ...["ReduceL1", "ReduceL2", "ReduceSum", "ReduceSumSquare"].map((op): [string, Rule] => [
    op,
    reduction(true),
  ]),
  ...["ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"].map(
    (op): [string, Rule] => [op, reduction(false)],
  ),
  ["BatchNormalization", normalisation],
  ["InstanceNormalization", normalisation],
  ["LayerNormalization", layerNormalisation],
  ["RMSNormalization", layerNormalisation],
  ["LRN", acrossChannels],
  ["GroupNormalization", acrossChannels],
  ["LogSoftmax", softmax],
  ["Hardmax", softmax],
  ["Softmax", softmax],
  ["Shape", shape],
  ...layerRules,
  ...shapeRules,
]);

/** Of ONNX Runtime's own operators, those that its optimiser puts between layers. */
const contribRules = new Map(
  ["BiasGelu", "FastGelu", "Gelu", "QuickGelu"].map((op): [string, Rule] => [op, elementwise]),
);
