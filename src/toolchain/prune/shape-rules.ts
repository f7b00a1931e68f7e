// Propagation rules of operators that only move elements: Reshape, Transpose, Concat, Split,
// Gather, Slice, Resize.

import { create } from "@bufbuild/protobuf";
import { readIntAttribute } from "../onnx/graph-queries.ts";
import { removeAttribute, setAttribute } from "../onnx/nodes.ts";
import {
  AttributeProto_AttributeType as AttributeType,
  AttributeProtoSchema,
} from "../onnx/proto/onnx_pb.js";
import { bindShapeTensor } from "./bind-shape-tensor.ts";
import type { Axes } from "./channel-coupling.ts";
import type { PropagationRule, RuleContext } from "./propagation-rule.ts";
import { normalizeAxis, readIntegers } from "./read-integers.ts";
import { reshapeAxes } from "./reshape-axes.ts";

function reshape(step: RuleContext): Axes[] | undefined {
  const x = step.claimInput(0);
  const [[before], [after]] = [step.inputShapes, step.outputShapes];
  if (
    x === undefined ||
    before === undefined ||
    after === undefined ||
    [...before, ...after].includes(0)
  )
    return undefined;
  const axes = reshapeAxes(step.coupling, x, before, after, `${step.label} regroups the channels`);
  if (step.node.opType === "Reshape")
    bindShapeTensor(step, 1, axes, readIntAttribute(step.node, "allowzero", 0) !== 1);
  return [axes];
}

function transpose(step: RuleContext): Axes[] | undefined {
  const x = step.claimInput(0);
  const order = readIntegers(step, "perm", -1) ?? x?.map((_, axis) => axis).toReversed();
  return x && [(order ?? []).map((axis) => x[axis])];
}

function concat(step: RuleContext): Axes[] | undefined {
  const [shape = []] = step.outputShapes;
  const concatAxis = normalizeAxis(readIntAttribute(step.node, "axis", 1), shape.length);
  const inputs = step.node.input.map((_, position) => step.claimInput(position) ?? []);
  return [
    shape.map((size, dimension) => {
      if (dimension !== concatAxis)
        return inputs
          .map((axes) => axes[dimension])
          .reduce((coupled, axis) => step.coupling.couple(coupled, axis), undefined);
      const parts = inputs.map(
        (axes, position) =>
          axes[dimension] ??
          step.coupling.addFrozenAxis(
            step.inputShapes[position]?.[dimension] ?? 0,
            `${step.label} joins the channels with a single one`,
          ),
      );
      return size < 2 ? undefined : Int32Array.from(parts.flatMap((part) => [...part]));
    }),
  ];
}

function split(step: RuleContext): Axes[] | undefined {
  const x = step.claimInput(0);
  const splitAxis = normalizeAxis(readIntAttribute(step.node, "axis", 0), x?.length ?? 0);
  const channels = x?.[splitAxis];
  if (x === undefined) return undefined;
  if (channels === undefined) return step.outputShapes.map(() => x);
  let start = 0;
  const parts = step.outputShapes.map((shape) =>
    channels.subarray(start, (start += shape?.[splitAxis] ?? 0)),
  );
  for (const part of parts) {
    if (part.length < 2)
      step.coupling.freeze([part], `${step.label} creates a part with one channel`);
    else step.declareNonEmpty(part);
  }
  step.onRemoval(({ remainingSize, setInt64Input }) => {
    if (remainingSize(channels) === channels.length) return;
    if (step.opset < 13)
      setAttribute(
        step.node,
        create(AttributeProtoSchema, {
          name: "split",
          type: AttributeType.INTS,
          ints: parts.map((part) => BigInt(remainingSize(part))),
        }),
      );
    else setInt64Input(step.node, 1, parts.map(remainingSize));
    removeAttribute(step.node, "num_outputs");
  });
  return parts.map((part) =>
    x.map((axis, dimension) => {
      if (dimension !== splitAxis) return axis;
      return part.length < 2 ? undefined : part;
    }),
  );
}

/** Rule for Gather, which selects along a frozen axis. */
function gather(step: RuleContext): Axes[] | undefined {
  const [x, indices] = [step.claimInput(0), step.claimInput(1)];
  if (x === undefined || indices === undefined) return undefined;
  const gatherAxis = normalizeAxis(readIntAttribute(step.node, "axis", 0), x.length);
  step.coupling.freeze([x[gatherAxis]], `${step.label} selects channels by index`);
  return [[...x.slice(0, gatherAxis), ...indices, ...x.slice(gatherAxis + 1)]];
}

/**
 * Rule for operators that resize axes. Axes of unchanged size keep their indices, and all others
 * are frozen.
 */
function resizeAxes(step: RuleContext): Axes[] | undefined {
  const x = step.claimInput(0);
  const [[before = []], [after = []]] = [step.inputShapes, step.outputShapes];
  if (x === undefined) return undefined;
  return [
    after.map((size, dimension) => {
      if (size === before[dimension]) return x[dimension];
      const reason = `${step.label} changes the size of the axis`;
      step.coupling.freeze([x[dimension]], reason);
      return step.coupling.addAxis(size, reason);
    }),
  ];
}

function slice(step: RuleContext): Axes[] | undefined {
  const steps = step.node.input[4] ? readIntegers(step, "steps", 4) : [];
  return steps?.every((size) => size === 1) ? resizeAxes(step) : undefined;
}

function resize(step: RuleContext): Axes[] | undefined {
  const axes = resizeAxes(step);
  const hasSizes = (step.node.input[3] ?? "") !== "";
  if (step.node.attribute.some(({ name }) => name === "axes")) return undefined;
  if (hasSizes && axes?.[0] !== undefined) bindShapeTensor(step, 3, axes[0], false);
  return axes;
}

export const shapeRules: readonly (readonly [op: string, PropagationRule])[] = [
  ...["Flatten", "Reshape", "Squeeze", "Unsqueeze"].map((op): [string, PropagationRule] => [
    op,
    reshape,
  ]),
  ["Transpose", transpose],
  ["Concat", concat],
  ["Split", split],
  ["Gather", gather],
  ...["Pad", "Upsample"].map((op): [string, PropagationRule] => [op, resizeAxes]),
  ["Slice", slice],
  ["Resize", resize],
];
