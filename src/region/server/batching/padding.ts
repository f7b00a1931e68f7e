// Decides which requests may be padded, so that rows of different lengths share a run. These are requests encoded here, and
// requests to a model that declares its padding (`batching.padding`).
//
// The outputs must equal those of a separate run, so padded outputs are trimmed. An output can be trimmed if the padded axis is
// its only variable dimension after the first. A request can be padded if its padded inputs all have the same length.
// Everything else runs unpadded.
//
// Known gap: an output whose length is independent of the input is also trimmed if it happens to be as long as the run. A model
// with such an output should not declare padding. BYTES are not padded; FP16 and BF16 are padded with zeros only.

import type { Datatype, TensorSpec } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { RowPadding } from "../../../tasks/task.ts";
import type { ExecutionRequest } from "../executor.ts";

export interface PaddingRule extends Omit<RowPadding, "buckets"> {
  readonly buckets?: readonly number[] | undefined;
}

export interface RequestPadding extends PaddingRule {
  /** Length of the request's padded inputs. */
  readonly length: number;
}

/** @param declared by the model; for requests encoded here, only its buckets count */
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

/** Returns whether this input or output has the length that padding changes. */
export const hasVariableAxis = ({ shape }: TensorSpec, axis: number): boolean => shape[axis] === -1;

const canBePadded = (datatype: Datatype, { value }: PaddingRule) =>
  datatype !== "BYTES" && (value === 0 || (datatype !== "FP16" && datatype !== "BF16"));

function canTrimOutputs({ outputs }: Session, axis: number): boolean {
  return outputs.every(({ shape }) =>
    shape.every((dimension, at) => dimension !== -1 || at === 0 || at === axis),
  );
}

/** Returns the padded length of a run; undefined without a matching bucket, when the longest request decides. */
export function findBucketLength({ buckets }: PaddingRule, length: number): number | undefined {
  return buckets?.find((bucket) => bucket >= length);
}
