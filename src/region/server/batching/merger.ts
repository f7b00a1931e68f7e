// Merges a session's works into runs and splits what comes out, and remembers what the session turned out to be unfit for.

import type { NamedTensors } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import type { Work } from "../executor.ts";
import type { BufferPool } from "../buffer-pool.ts";
import { batchKeyOf, merge, rowsOf, runLengthOf, type Merged } from "./merge.ts";
import { isLong, paddingOf, type PaddingRule, type WorkPadding } from "./padding.ts";
import { misfitOf, split, type Misfit, type SplitPlan } from "./split.ts";

export interface MergedRun extends Merged {
  /** Each work's own outputs, or why they cannot be told apart. */
  split(outputs: NamedTensors): readonly NamedTensors[] | Misfit;
}

export interface Merger {
  /** Works of the same key may share a run; undefined for one that runs by itself. */
  keyOf(work: Work): string | undefined;
  /** @param works of one key, or a single one */
  merge(works: readonly Work[]): MergedRun;
  /** Does what led to this no more. @returns whether it did until now */
  giveUp(kind: Misfit["kind"]): boolean;
}

export interface MergerOptions {
  /** Whether works may share runs at all. */
  readonly merges: boolean;
  /** For tensors that clients send. */
  readonly padding: PaddingRule | undefined;
  /** Of merged inputs. */
  readonly pool: BufferPool;
}

export function createMerger(
  session: Session,
  { merges, padding: declared, pool }: MergerOptions,
): Merger {
  const allowed = { rows: merges, length: merges };
  /** Of works that wait; forgotten when something is given up. */
  let keys = new WeakMap<Work, { readonly key: string | undefined }>();

  const paddingOfWork = (work: Work) => (allowed.length ? paddingOf(work, declared) : undefined);

  function planOf(
    works: readonly Work[],
    paddings: readonly WorkPadding[],
    runLength: number | undefined,
  ): SplitPlan {
    const rowsOfEach = works.map(rowsOf);
    const [padding] = paddings;
    const lengths = paddings.map(({ length }) => length);
    if (
      padding === undefined ||
      runLength === undefined ||
      lengths.every((length) => length === runLength)
    )
      return { rowsOfEach };
    const outputs = new Set(
      session.outputs.filter((spec) => isLong(spec, padding.axis)).map(({ name }) => name),
    );
    return { rowsOfEach, padded: { axis: padding.axis, runLength, lengths, outputs } };
  }

  return {
    keyOf(work) {
      if (!allowed.rows) return undefined;
      const known = keys.get(work);
      if (known !== undefined) return known.key;
      const key = batchKeyOf(work, paddingOfWork(work));
      keys.set(work, { key });
      return key;
    },

    merge(works) {
      const paddings = works.flatMap((work) => paddingOfWork(work) ?? []);
      const runLength = runLengthOf(paddings);
      const plan = planOf(works, paddings, runLength);
      const [only] = works;
      const isAsItIs = works.length === 1 && plan.padded === undefined && only !== undefined;
      const merged = isAsItIs
        ? { inputs: only.inputs, release: () => {} }
        : merge(works, paddings[0], runLength, pool);
      return { ...merged, split: (outputs) => misfitOf(outputs, plan) ?? split(outputs, plan) };
    },

    giveUp(kind) {
      const did = allowed[kind];
      allowed[kind] = false;
      keys = new WeakMap();
      return did;
    },
  };
}
