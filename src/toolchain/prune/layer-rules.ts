// Rules of the operators with weights: convolutions and products of matrices.

import { intOf } from "../onnx/find.ts";
import { intAttribute, setAttribute } from "../onnx/nodes.ts";
import type { Axes, Axis } from "./coupling.ts";
import type { Rule, Step } from "./step.ts";

/** Weights [out, in / group, ...]. */
function convolution(step: Step): Axes[] | undefined {
  const [x, weights] = [step.take(0), step.take(1)];
  if (x === undefined || weights === undefined) return undefined;
  const [outChannels = 0, inChannels = 0] = step.inputShapes[1] ?? [];
  const group = intOf(step.node, "group", 1);
  let [channels] = weights;
  if (group > 1 && inChannels === 1) {
    // Depthwise: one group for each input channel, which goes with it.
    channels = step.coupling.join(channels, repeated(x[1], outChannels / group));
    groupsFollow(step, x[1]);
  } else {
    step.coupling.join(step.coupling.joinParts(x[1], group), weights[1]);
    step.coupling.joinParts(channels, group);
  }
  step.isLayer(1, 0, channels);
  return convolved(step, x, channels);
}

/** Weights [in, out / group, ...]. */
function transposedConvolution(step: Step): Axes[] | undefined {
  const [x, weights] = [step.take(0), step.take(1)];
  if (x === undefined || weights === undefined) return undefined;
  const group = intOf(step.node, "group", 1);
  const isDepthwise =
    group > 1 && step.inputShapes[1]?.[0] === group && step.inputShapes[1]?.[1] === 1;
  step.coupling.join(x[1], weights[0]);
  if (group === 1) step.isLayer(1, 1, weights[1]);
  else if (isDepthwise) groupsFollow(step, x[1]);
  else step.coupling.freeze([x[1]], `${step.label} takes them in groups`);
  const channels =
    group === 1
      ? weights[1]
      : isDepthwise
        ? x[1]
        : step.coupling.axis(step.outputShapes[0]?.[1] ?? 0, `${step.label} makes them in groups`);
  return convolved(step, x, channels);
}

function convolved(step: Step, [batch, , ...places]: Axes, channels: Axis | undefined): Axes[] {
  step.coupling.join(channels, step.take(2)?.[0]);
  step.coupling.freeze(places, `${step.label} goes over them`);
  return step.outputShapes.map((shape = []) => [
    batch,
    channels,
    ...step.coupling.axes(shape.slice(2), `${step.label} goes over them`),
  ]);
}

function groupsFollow({ node, onRemoval }: Step, channels: Axis | undefined): void {
  if (channels !== undefined)
    onRemoval(({ left }) => setAttribute(node, intAttribute("group", left(channels))));
}

/** Each index so many times in a row. */
const repeated = (axis: Axis | undefined, times: number): Axis | undefined =>
  axis &&
  (times === 1
    ? axis
    : Int32Array.from(
        { length: axis.length * times },
        (_, index) => axis[Math.floor(index / times)] ?? 0,
      ));

function gemm(step: Step): Axes[] | undefined {
  const [a, b, c] = [step.take(0), step.take(1), step.take(2)];
  if (a === undefined || b === undefined) return undefined;
  const [transposesA, transposesB] = [
    intOf(step.node, "transA", 0) === 1,
    intOf(step.node, "transB", 0) === 1,
  ];
  const [rows, inner] = transposesA ? [a[1], a[0]] : [a[0], a[1]];
  const [otherInner, columns] = transposesB ? [b[1], b[0]] : [b[0], b[1]];
  step.coupling.join(inner, otherInner);
  step.isLayer(1, transposesB ? 0 : 1, columns);
  step.coupling.join(columns, c?.at(-1));
  step.coupling.join(rows, c?.at(-2));
  return [[rows, columns]];
}

function matMul(step: Step): Axes[] | undefined {
  const [a, b] = [step.take(0), step.take(1)];
  const [[shape = []], rank] = [step.outputShapes, b?.length ?? 0];
  if (a === undefined || b === undefined || a.length < 2 || rank < 2) return undefined;
  step.coupling.join(a.at(-1), b.at(-2));
  if (step.constant(1) !== undefined) step.isLayer(1, rank - 1, b.at(-1));
  else if (a.length === 2) step.isLayer(0, 0, a[0]);
  const batch = shape
    .slice(0, -2)
    .map((_, at) =>
      step.coupling.join(
        a.slice(0, -2).at(at - shape.length + 2),
        b.slice(0, -2).at(at - shape.length + 2),
      ),
    );
  return [[...batch, a.at(-2), b.at(-1)]];
}

export const layerRules: readonly (readonly [op: string, Rule])[] = [
  ["Conv", convolution],
  ["ConvTranspose", transposedConvolution],
  ["Gemm", gemm],
  ["MatMul", matMul],
];
