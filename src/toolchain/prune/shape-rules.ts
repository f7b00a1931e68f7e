// Rules of the operators that only move elements: put together, taken apart, in another order or shape.

import { create } from "@bufbuild/protobuf";
import { readIntAttribute } from "../onnx/graph-queries.ts";
import { removeAttribute, setAttribute } from "../onnx/nodes.ts";
import {
  AttributeProto_AttributeType as AttributeType,
  AttributeProtoSchema,
} from "../onnx/proto/onnx_pb.js";
import type { Axes } from "./channel-coupling.ts";
import { bindShapeTensor } from "./bind-shape-tensor.ts";
import { reshapeAxes } from "./reshape-axes.ts";
import { normalizeAxis, readIntegers } from "./read-integers.ts";
import type { PropagationRule, RuleContext } from "./propagation-rule.ts";

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
  const axes = reshapeAxes(
    step.coupling,
    x,
    before,
    after,
    `${step.label} cuts them in another way`,
  );
  if (step.node.opType === "Reshape")
    bindShapeTensor(step, 1, axes, readIntAttribute(step.node, "allowzero", 0) !== 1);
  return [axes];
}

function transpose(step: RuleContext): Axes[] | undefined {
  const x = step.claimInput(0);
  const order = readIntegers(step, "perm", -1) ?? x?.map((_, at) => at).toReversed();
  return x && [(order ?? []).map((at) => x[at])];
}

function concat(step: RuleContext): Axes[] | undefined {
  const [shape = []] = step.outputShapes;
  const along = normalizeAxis(readIntAttribute(step.node, "axis", 1), shape.length);
  const inputs = step.node.input.map((_, position) => step.claimInput(position) ?? []);
  return [
    shape.map((size, at) => {
      if (at !== along)
        return inputs
          .map((axes) => axes[at])
          .reduce((all, axis) => step.coupling.couple(all, axis), undefined);
      const parts = inputs.map(
        (axes, position) =>
          axes[at] ??
          step.coupling.addFrozenAxis(
            step.inputShapes[position]?.[at] ?? 0,
            `${step.label} puts one of its own beside them`,
          ),
      );
      return size < 2 ? undefined : Int32Array.from(parts.flatMap((part) => [...part]));
    }),
  ];
}

function split(step: RuleContext): Axes[] | undefined {
  const x = step.claimInput(0);
  const along = normalizeAxis(readIntAttribute(step.node, "axis", 0), x?.length ?? 0);
  const whole = x?.[along];
  if (x === undefined) return undefined;
  if (whole === undefined) return step.outputShapes.map(() => x);
  let start = 0;
  const parts = step.outputShapes.map((shape) =>
    whole.subarray(start, (start += shape?.[along] ?? 0)),
  );
  for (const part of parts) {
    if (part.length < 2) step.coupling.freeze([part], `${step.label} makes a part of one`);
    else step.declareNonEmpty(part);
  }
  step.onRemoval(({ remainingSize: left, setInt64Input: giveSizes }) => {
    if (left(whole) === whole.length) return;
    if (step.opset < 13)
      setAttribute(
        step.node,
        create(AttributeProtoSchema, {
          name: "split",
          type: AttributeType.INTS,
          ints: parts.map((part) => BigInt(left(part))),
        }),
      );
    else giveSizes(step.node, 1, parts.map(left));
    removeAttribute(step.node, "num_outputs");
  });
  return parts.map((part) =>
    x.map((axis, at) => (at !== along ? axis : part.length < 2 ? undefined : part)),
  );
}

/** Picks along an axis, which stays as it is. */
function gather(step: RuleContext): Axes[] | undefined {
  const [x, indices] = [step.claimInput(0), step.claimInput(1)];
  if (x === undefined || indices === undefined) return undefined;
  const along = normalizeAxis(readIntAttribute(step.node, "axis", 0), x.length);
  step.coupling.freeze([x[along]], `${step.label} picks among them`);
  return [[...x.slice(0, along), ...indices, ...x.slice(along + 1)]];
}

/** Axes that keep their size have the same indices; others stay as they are. */
function resizeAxes(step: RuleContext): Axes[] | undefined {
  const x = step.claimInput(0);
  const [[before = []], [after = []]] = [step.inputShapes, step.outputShapes];
  if (x === undefined) return undefined;
  return [
    after.map((size, at) => {
      if (size === before[at]) return x[at];
      step.coupling.freeze([x[at]], `${step.label} changes their number`);
      return step.coupling.addAxis(size, `${step.label} changes their number`);
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
