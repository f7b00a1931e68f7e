// Merges a session's works into runs and splits what comes out, and remembers what the session turned out to be unfit for.

import type { NamedTensors } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { ExecutionRequest } from "../executor.ts";
import type { BufferPool } from "../buffer-pool.ts";
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
  /** Each work's own outputs, or why they cannot be told apart. */
  splitOutputs(outputs: NamedTensors): readonly NamedTensors[] | ShapeMismatch;
}

export interface BatchMerger {
  /** Works of the same key may share a run; undefined for one that runs by itself. */
  batchKey(work: ExecutionRequest): string | undefined;
  /** @param works of one key, or a single one */
  merge(works: readonly ExecutionRequest[]): MergedBatch;
  /** Does what led to this no more. @returns whether it did until now */
  disable(kind: ShapeMismatch["kind"]): boolean;
}

export interface BatchMergerOptions {
  /** Whether works may share runs at all. */
  readonly isBatchingEnabled: boolean;
  /** For tensors that clients send. */
  readonly padding: PaddingRule | undefined;
  /** Of merged inputs. */
  readonly pool: BufferPool;
}

export function createBatchMerger(
  session: Session,
  { isBatchingEnabled: merges, padding: declared, pool }: BatchMergerOptions,
): BatchMerger {
  const allowed = { rows: merges, length: merges };
  /** Of works that wait; forgotten when something is given up. */
  let keys = new WeakMap<ExecutionRequest, { readonly key: string | undefined }>();

  const paddingOfWork = (work: ExecutionRequest) =>
    allowed.length ? resolvePadding(work, declared) : undefined;

  function planOf(
    works: readonly ExecutionRequest[],
    paddings: readonly RequestPadding[],
    runLength: number | undefined,
  ): SplitPlan {
    const rowsOfEach = works.map(rowCountOf);
    const [padding] = paddings;
    const lengths = paddings.map(({ length }) => length);
    if (
      padding === undefined ||
      runLength === undefined ||
      lengths.every((length) => length === runLength)
    )
      return { rowsPerRequest: rowsOfEach };
    const outputs = new Set(
      session.outputs.filter((spec) => hasVariableAxis(spec, padding.axis)).map(({ name }) => name),
    );
    return {
      rowsPerRequest: rowsOfEach,
      padding: { axis: padding.axis, runLength, lengths, outputs },
    };
  }

  return {
    batchKey(work) {
      if (!allowed.rows) return undefined;
      const known = keys.get(work);
      if (known !== undefined) return known.key;
      const key = computeBatchKey(work, paddingOfWork(work));
      keys.set(work, { key });
      return key;
    },

    merge(works) {
      const paddings = works.flatMap((work) => paddingOfWork(work) ?? []);
      const runLength = computePaddedLength(paddings);
      const plan = planOf(works, paddings, runLength);
      const [only] = works;
      const isAsItIs = works.length === 1 && plan.padding === undefined && only !== undefined;
      const merged = isAsItIs
        ? { inputs: only.inputs, release: () => {} }
        : mergeInputs(works, paddings[0], runLength, pool);
      return {
        ...merged,
        splitOutputs: (outputs) => findShapeMismatch(outputs, plan) ?? splitOutputs(outputs, plan),
      };
    },

    disable(kind) {
      const did = allowed[kind];
      allowed[kind] = false;
      keys = new WeakMap();
      return did;
    },
  };
}
