// Which works may be padded, so that rows of different lengths share a run: those that were encoded here, and those of a
// model that declares its padding (`batching.padding`).
//
// What comes out must be what the work would have got alone, so outputs that are longer for the padding are cut back. Where
// to cut is known only of an output whose one variable dimension, beside the first, is the padded axis itself; and of a work
// whose padded inputs are all of one length. Everything else runs as it is. What remains unknown: an output whose length has
// nothing to do with the input's is cut, too, if it happens to be just as long as the run; a model that has one should not
// declare padding. BYTES are not padded, and FP16 and BF16 with nothing but zeros.

import type { Datatype, TensorSpec } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { RowPadding } from "../../../tasks/task.ts";
import type { ExecutionRequest } from "../executor.ts";

export interface PaddingRule extends Omit<RowPadding, "buckets"> {
  readonly buckets?: readonly number[] | undefined;
}

export interface RequestPadding extends PaddingRule {
  /** The work's own. */
  readonly length: number;
}

/** @param declared by the model; of works that were encoded here, only its buckets count */
export function resolvePadding(
  { session, inputs, padding: encoded }: ExecutionRequest,
  declared: PaddingRule | undefined,
): RequestPadding | undefined {
  const padding: PaddingRule | undefined =
    encoded === undefined
      ? declared
      : { ...encoded, buckets: declared?.buckets ?? encoded.buckets };
  if (padding === undefined || !canTrimOutputs(session, padding.axis)) return undefined;
  const lengths = session.inputs
    .filter((spec) => hasVariableAxis(spec, padding.axis))
    .map(({ name, datatype }) =>
      canBePadded(datatype, padding) ? inputs[name]?.shape[padding.axis] : undefined,
    );
  const [length] = lengths;
  return length === undefined || lengths.some((other) => other !== length)
    ? undefined
    : { ...padding, length };
}

/** Whether this input or output has the length that padding changes. */
export const hasVariableAxis = ({ shape }: TensorSpec, axis: number): boolean => shape[axis] === -1;

const canBePadded = (datatype: Datatype, { value }: PaddingRule) =>
  datatype !== "BYTES" && (value === 0 || (datatype !== "FP16" && datatype !== "BF16"));

function canTrimOutputs({ outputs }: Session, axis: number): boolean {
  return outputs.every(({ shape }) =>
    shape.every((dimension, at) => dimension !== -1 || at === 0 || at === axis),
  );
}

/** The length that a run of it gets; undefined where there is no bucket for it: its longest work's. */
export function findBucketLength({ buckets }: PaddingRule, length: number): number | undefined {
  return buckets?.find((bucket) => bucket >= length);
}
