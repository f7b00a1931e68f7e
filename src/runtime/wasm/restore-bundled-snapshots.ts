// Restores the Worker's bundled snapshots at module scope, before the first request.

import { asEdgeTierError, type EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors, NumericDatatype, Tensor, TensorSpec } from "../../core/tensor.ts";
import { typedArrays } from "../../core/tensor.ts";
import type { Session } from "../runtime.ts";
import { createBytesSource } from "./byte-source.ts";
import type { Deployment } from "./deployment.ts";
import { PAGE_BYTES } from "./engine.ts";
import { restoreSnapshot } from "./restore-snapshot.ts";

export interface BundledSessions {
  /** Restored sessions by the graph's SHA-256. */
  readonly sessions: ReadonlyMap<string, Session>;
  /** Failures, which requests report later, because a failure here must not stop the Worker. */
  readonly failures: readonly EdgeTierError[];
}

/** Size of the model's variable dimensions in warm-up runs. */
const WARMUP_DIMENSION = 16;

/** Restores all bundled snapshots, without I/O. */
export async function restoreBundledSnapshots({
  engine,
  bundled,
  warmUpRuns,
  sessionBudgetBytes,
}: Deployment): Promise<BundledSessions> {
  const sessions = new Map<string, Session>();
  const failures: EdgeTierError[] = [];
  for (const { graph, head, bytes } of bundled) {
    try {
      const session = await restoreSnapshot(
        engine,
        createBytesSource(new Uint8Array(bytes)),
        head,
        graph,
        { maximumPages: Math.floor(sessionBudgetBytes / PAGE_BYTES) },
      );
      const inputs = createWarmupInputs(session.inputs);
      for (let run = 0; run < warmUpRuns; run++) await session.run(inputs);
      sessions.set(graph, session);
    } catch (error) {
      failures.push(asEdgeTierError(error));
    }
  }
  return { sessions, failures };
}

/** Creates one row of zeros. */
function createWarmupInputs(specs: readonly TensorSpec[]): NamedTensors {
  return Object.fromEntries(
    specs.map(({ name, datatype, shape: declared }) => {
      const shape = declared.map((dimension, axis) =>
        dimension !== -1 ? dimension : axis === 0 ? 1 : WARMUP_DIMENSION,
      );
      const count = shape.reduce((product, dimension) => product * dimension, 1);
      return [
        name,
        { datatype, shape, data: new typedArrays[datatype as NumericDatatype](count) } as Tensor,
      ];
    }),
  );
}
