// Restores the snapshot and warms the session up at module scope, before any request, like the project's own Worker.
import facts from "cold:facts";
import image from "cold:image.bin";
import type { NamedTensors } from "../../../../src/core/tensor.ts";
import { restoreBundledSnapshots } from "../../../../src/runtime/wasm/restore-bundled-snapshots.ts";
import { engine, run } from "./restore.ts";

const { graph, head, warmUpRuns, sessionBudgetBytes } = facts;
const { sessions, failures: refused } = await restoreBundledSnapshots({
  engine,
  fallback: undefined,
  bundled: [{ graph, head, bytes: image }],
  artifacts: new Map(),
  warmUpRuns,
  sessionBudgetBytes,
});
const session = sessions.get(graph);
if (session === undefined) throw refused[0];

export const runLogits = (input: NamedTensors): Promise<Float32Array> => run(session, input);
