// Restores the snapshots that came with the Worker, at module scope: before the first request, and off its path.

import { asEdgeTierError, type EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors, NumericDatatype, Tensor, TensorSpec } from "../../core/tensor.ts";
import { typedArrays } from "../../core/tensor.ts";
import type { Session } from "../runtime.ts";
import { createBytesSource } from "./byte-source.ts";
import type { Deployment } from "./deployment.ts";
import { restoreSnapshot } from "./restore-snapshot.ts";
import { PAGE_BYTES } from "./engine.ts";

export interface BundledSessions {
  /** By the graph's SHA-256. */
  readonly sessions: ReadonlyMap<string, Session>;
  /** Nothing that goes wrong here keeps the Worker from starting; whoever serves reports it. */
  readonly failures: readonly EdgeTierError[];
}

/** Elements for a dimension that the model leaves open. */
const WARMUP_DIMENSION = 16;

/** Does no I/O. */
export async function restoreBundledSnapshots({
  engine,
  bundled,
  warmUpRuns,
  sessionBudgetBytes,
}: Deployment): Promise<BundledSessions> {
  const sessions = new Map<string, Session>();
  const refused: EdgeTierError[] = [];
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
      refused.push(asEdgeTierError(error));
    }
  }
  return { sessions, failures: refused };
}

/** One row of zeros. */
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
