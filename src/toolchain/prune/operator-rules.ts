// Propagation rules of operators: couples the axes of inputs and outputs with the same indices, and
// freezes axes that cannot lose any. An operator without a rule freezes all channels that reach it.

import { readIntAttribute } from "../onnx/graph-queries.ts";
import { domainOf } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import type { Axes } from "./channel-coupling.ts";
import { layerRules } from "./layer-rules.ts";
import type { PropagationRule, RuleContext } from "./propagation-rule.ts";
import { normalizeAxis, readIntegers } from "./read-integers.ts";
import { shapeRules } from "./shape-rules.ts";

/** @returns undefined for an operator without a rule */
export function findRule(node: NodeProto): PropagationRule | undefined {
  const domain = domainOf(node);
  return domain === ""
    ? rules.get(node.opType)
    : domain === "com.microsoft"
      ? contribOpRules.get(node.opType)
      : undefined;
}

/** Rule for elementwise operators with NumPy broadcasting. */
function elementwise(step: RuleContext): Axes[] | undefined {
  const inputs = step.inputShapes.map((shape, position) =>
    shape === undefined ? [] : (step.claimInput(position) ?? []),
  );
  return step.outputShapes.map((shape = []) =>
    shape.map((size, dimension) => {
      const axes = inputs
        .flatMap((inputAxes) => inputAxes[inputAxes.length - shape.length + dimension] ?? [])
        .filter(({ length }) => length === size);
      return axes.length === 0
        ? step.coupling.addAxis(size, `${step.label} creates the axis`)
        : axes.reduce((coupled, axis) => step.coupling.couple(coupled, axis) ?? coupled);
    }),
  );
}

/** Rule for operators that process each channel separately over all positions. */
function channelwise(step: RuleContext): Axes[] | undefined {
  const [batch, channels, ...spatial] = step.claimInput(0) ?? [];
  // The second output of MaxPool contains indices that depend on the number of channels.
  if (step.outputShapes.length > 1) return undefined;
  step.coupling.freeze(spatial, `${step.label} works along the spatial axes`);
  return step.outputShapes.map((shape = []) => [
    batch,
    channels,
    ...step.coupling.addAxes(shape.slice(2), `${step.label} works along the spatial axes`),
  ]);
}

/** Rule for normalizations with a constant for each channel. */
function normalization(step: RuleContext): Axes[] | undefined {
  const x = step.claimInput(0);
  const channels = x?.[1];
  for (let position = 1; position < step.inputShapes.length; position++)
    step.coupling.couple(channels, step.claimInput(position)?.[0]);
  if (x === undefined || step.outputShapes.length > 1) return undefined;
  step.declareScale(1, channels);
  return [x];
}

/** Rule for operators whose elements depend on each other along some axes. */
const mixingAlong =
  (axesOf: (step: RuleContext, rank: number) => readonly number[]): PropagationRule =>
  (step) => {
    const x = step.claimInput(0);
    if (x === undefined) return undefined;
    for (const dimension of axesOf(step, x.length))
      step.coupling.freeze([x[dimension]], `${step.label} combines elements along the axis`);
    return step.outputShapes.map((shape = [], position) =>
      position === 0 ? x : step.coupling.addAxes(shape, `${step.label} creates the axis`),
    );
  };

const axesFrom = (first: number, rank: number): number[] =>
  Array.from({ length: rank }, (_, dimension) => dimension).slice(first);
/** Before opset 13, Softmax flattened the axis and all following ones. */
const softmax = mixingAlong((step, rank) =>
  step.opset < 13
    ? axesFrom(readIntAttribute(step.node, "axis", 1), rank)
    : [normalizeAxis(readIntAttribute(step.node, "axis", -1), rank)],
);
/** Rule for operators that combine neighboring channels or groups of channels. */
const mixingChannels = mixingAlong(() => [1]);
const layerNormalization = mixingAlong((step, rank) =>
  axesFrom(readIntAttribute(step.node, "axis", -1), rank),
);

/** @param isSum whether a channel of zeros does not change the result */
const reduction =
  (isSum: boolean): PropagationRule =>
  (step) => {
    const x = step.claimInput(0);
    const axes = readIntegers(step, "axes", 1)?.map((axis) => normalizeAxis(axis, x?.length ?? 0));
    if (x === undefined || axes === undefined || axes.length === 0) return undefined;
    if (!isSum)
      step.coupling.freeze(
        axes.map((dimension) => x[dimension]),
        `${step.label} combines elements along the axis`,
      );
    const keepsDims = readIntAttribute(step.node, "keepdims", 1) !== 0;
    return [
      x.flatMap((axis, dimension) => {
        if (!axes.includes(dimension)) return [axis];
        return keepsDims ? [undefined] : [];
      }),
    ];
  };

/** Rule for Shape, whose output `shape-tensor.ts` follows. */
function shape(step: RuleContext): Axes[] {
  step.claimInput(0);
  return step.outputShapes.map((sizes = []) =>
    step.coupling.addAxes(sizes, `${step.label} creates the axis`),
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

/** Operators of ONNX Runtime that its optimizer inserts between layers. */
const contribOpRules = new Map(
  ["BiasGelu", "FastGelu", "Gelu", "QuickGelu"].map((op): [string, PropagationRule] => [
    op,
    elementwise,
  ]),
);
