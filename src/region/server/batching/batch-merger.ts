// Merges a session's requests into runs and splits the outputs; remembers what the session proved unable to do.

import type { NamedTensors } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { BufferPool } from "../buffer-pool.ts";
import type { ExecutionRequest } from "../executor.ts";
import {
  computeBatchKey,
  mergeInputs,
  rowCountOf,
  computePaddedLength,
  type MergedInputs,
} from "./merge-inputs.ts";
import {
  hasVariableAxis,
  resolvePadding,
  type PaddingRule,
  type RequestPadding,
} from "./padding.ts";
import {
  findShapeMismatch,
  splitOutputs,
  type ShapeMismatch,
  type SplitPlan,
} from "./split-outputs.ts";

export interface MergedBatch extends MergedInputs {
  /** Returns each request's outputs, or why they cannot be separated. */
  splitOutputs(outputs: NamedTensors): readonly NamedTensors[] | ShapeMismatch;
}

export interface BatchMerger {
  /** Requests with the same key may share a run. @returns undefined for a request that runs by itself */
  batchKey(request: ExecutionRequest): string | undefined;
  /** @param requests with the same key, or a single one */
  merge(requests: readonly ExecutionRequest[]): MergedBatch;
  /** Disables batching or padding after a mismatch. @returns whether it was enabled before */
  disable(kind: ShapeMismatch["kind"]): boolean;
}

export interface BatchMergerOptions {
  /** Whether requests may share runs at all. */
  readonly isBatchingEnabled: boolean;
  /** Padding of tensors that clients send. */
  readonly padding: PaddingRule | undefined;
  /** Buffers of merged inputs. */
  readonly pool: BufferPool;
}

export function createBatchMerger(
  session: Session,
  { isBatchingEnabled, padding: declaredPadding, pool }: BatchMergerOptions,
): BatchMerger {
  const enabled = { rows: isBatchingEnabled, length: isBatchingEnabled };
  /** Keys of waiting requests; they change when something is disabled. */
  let keys = new WeakMap<ExecutionRequest, { readonly key: string | undefined }>();

  const paddingOf = (request: ExecutionRequest) =>
    enabled.length ? resolvePadding(request, declaredPadding) : undefined;

  return {
    batchKey(request) {
      if (!enabled.rows) return undefined;
      const cached = keys.get(request);
      if (cached !== undefined) return cached.key;
      const key = computeBatchKey(request, paddingOf(request));
      keys.set(request, { key });
      return key;
    },

    merge(requests) {
      const paddings = requests.flatMap((request) => paddingOf(request) ?? []);
      const runLength = computePaddedLength(paddings);
      const plan = createSplitPlan(session, requests, paddings, runLength);
      const [only] = requests;
      const isUnchanged = requests.length === 1 && plan.padding === undefined && only !== undefined;
      const merged = isUnchanged
        ? { inputs: only.inputs, release: () => {} }
        : mergeInputs(requests, paddings[0], runLength, pool);
      return {
        ...merged,
        splitOutputs: (outputs) => findShapeMismatch(outputs, plan) ?? splitOutputs(outputs, plan),
      };
    },

    disable(kind) {
      const wasEnabled = enabled[kind];
      enabled[kind] = false;
      keys = new WeakMap();
      return wasEnabled;
    },
  };
}

function createSplitPlan(
  session: Session,
  requests: readonly ExecutionRequest[],
  paddings: readonly RequestPadding[],
  runLength: number | undefined,
): SplitPlan {
  const rowsPerRequest = requests.map(rowCountOf);
  const [padding] = paddings;
  const lengths = paddings.map(({ length }) => length);
  if (
    padding === undefined ||
    runLength === undefined ||
    lengths.every((length) => length === runLength)
  )
    return { rowsPerRequest };
  const outputs = new Set(
    session.outputs.filter((spec) => hasVariableAxis(spec, padding.axis)).map(({ name }) => name),
  );
  return { rowsPerRequest, padding: { axis: padding.axis, runLength, lengths, outputs } };
}
