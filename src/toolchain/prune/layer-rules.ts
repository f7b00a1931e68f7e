// Propagation rules of operators with weights: convolutions and matrix products.

import { readIntAttribute } from "../onnx/graph-queries.ts";
import { makeIntAttribute, setAttribute } from "../onnx/nodes.ts";
import type { Axes, Axis } from "./channel-coupling.ts";
import type { PropagationRule, RuleContext } from "./propagation-rule.ts";

/** The weights have the shape [out, in / group, ...]. */
function convolution(step: RuleContext): Axes[] | undefined {
  const [x, weights] = [step.claimInput(0), step.claimInput(1)];
  if (x === undefined || weights === undefined) return undefined;
  const [outChannels = 0, inChannels = 0] = step.inputShapes[1] ?? [];
  const group = readIntAttribute(step.node, "group", 1);
  let [channels] = weights;
  if (group > 1 && inChannels === 1) {
    // A depthwise convolution has one group for each input channel, and both are removed together.
    channels = step.coupling.couple(channels, repeatEach(x[1], outChannels / group));
    updateGroupOnRemoval(step, x[1]);
  } else {
    step.coupling.couple(step.coupling.coupleParts(x[1], group), weights[1]);
    step.coupling.coupleParts(channels, group);
  }
  step.declareLayer(1, 0, channels);
  return spatialOutputAxes(step, x, channels);
}

/** The weights have the shape [in, out / group, ...]. */
function transposedConvolution(step: RuleContext): Axes[] | undefined {
  const [x, weights] = [step.claimInput(0), step.claimInput(1)];
  if (x === undefined || weights === undefined) return undefined;
  const group = readIntAttribute(step.node, "group", 1);
  const isDepthwise =
    group > 1 && step.inputShapes[1]?.[0] === group && step.inputShapes[1]?.[1] === 1;
  step.coupling.couple(x[1], weights[0]);
  if (group === 1) step.declareLayer(1, 1, weights[1]);
  else if (isDepthwise) updateGroupOnRemoval(step, x[1]);
  else step.coupling.freeze([x[1]], `${step.label} reads the channels in groups`);
  const channels =
    group === 1
      ? weights[1]
      : isDepthwise
        ? x[1]
        : step.coupling.addAxis(
            step.outputShapes[0]?.[1] ?? 0,
            `${step.label} produces the channels in groups`,
          );
  return spatialOutputAxes(step, x, channels);
}

function spatialOutputAxes(
  step: RuleContext,
  [batch, , ...spatial]: Axes,
  channels: Axis | undefined,
): Axes[] {
  step.coupling.couple(channels, step.claimInput(2)?.[0]);
  step.coupling.freeze(spatial, `${step.label} works along the spatial axes`);
  return step.outputShapes.map((shape = []) => [
    batch,
    channels,
    ...step.coupling.addAxes(shape.slice(2), `${step.label} works along the spatial axes`),
  ]);
}

function updateGroupOnRemoval({ node, onRemoval }: RuleContext, channels: Axis | undefined): void {
  if (channels !== undefined)
    onRemoval(({ remainingSize }) =>
      setAttribute(node, makeIntAttribute("group", remainingSize(channels))),
    );
}

/** Repeats each index `times` times in a row. */
const repeatEach = (axis: Axis | undefined, times: number): Axis | undefined =>
  axis &&
  (times === 1
    ? axis
    : Int32Array.from(
        { length: axis.length * times },
        (_, index) => axis[Math.floor(index / times)] ?? 0,
      ));

function gemm(step: RuleContext): Axes[] | undefined {
  const [a, b, c] = [step.claimInput(0), step.claimInput(1), step.claimInput(2)];
  if (a === undefined || b === undefined) return undefined;
  const [transposesA, transposesB] = [
    readIntAttribute(step.node, "transA", 0) === 1,
    readIntAttribute(step.node, "transB", 0) === 1,
  ];
  const [rows, inner] = transposesA ? [a[1], a[0]] : [a[0], a[1]];
  const [otherInner, columns] = transposesB ? [b[1], b[0]] : [b[0], b[1]];
  step.coupling.couple(inner, otherInner);
  step.declareLayer(1, transposesB ? 0 : 1, columns);
  step.coupling.couple(columns, c?.at(-1));
  step.coupling.couple(rows, c?.at(-2));
  return [[rows, columns]];
}

function matMul(step: RuleContext): Axes[] | undefined {
  const [a, b] = [step.claimInput(0), step.claimInput(1)];
  const [[shape = []], rank] = [step.outputShapes, b?.length ?? 0];
  if (a === undefined || b === undefined || a.length < 2 || rank < 2) return undefined;
  step.coupling.couple(a.at(-1), b.at(-2));
  if (step.constant(1) !== undefined) step.declareLayer(1, rank - 1, b.at(-1));
  else if (a.length === 2) step.declareLayer(0, 0, a[0]);
  const batch = shape
    .slice(0, -2)
    .map((_, dimension) =>
      step.coupling.couple(
        a.slice(0, -2).at(dimension - shape.length + 2),
        b.slice(0, -2).at(dimension - shape.length + 2),
      ),
    );
  return [[...batch, a.at(-2), b.at(-1)]];
}

export const layerRules: readonly (readonly [op: string, PropagationRule])[] = [
  ["Conv", convolution],
  ["ConvTranspose", transposedConvolution],
  ["Gemm", gemm],
  ["MatMul", matMul],
];
