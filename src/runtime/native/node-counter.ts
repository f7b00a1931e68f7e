// Counts the nodes of a graph per execution provider. ONNX Runtime falls back to the CPU node by node, and reports it only
// in its profile.

import type { InferenceSession } from "onnxruntime-node";
import type { ExecutionProviderName } from "../../core/execution-provider.ts";
import { createRunProfiler, type NodeEvent, type RunProfiler } from "./run-profile.ts";

/** Node counts without copies between devices. A compiled subgraph counts as one node. */
export type NodeCounts = Readonly<Partial<Record<ExecutionProviderName, number>>>;

const PROVIDER_NAMES = new Map<string, ExecutionProviderName>([
  ["CPUExecutionProvider", "cpu"],
  ["WebGpuExecutionProvider", "webgpu"],
  ["CUDAExecutionProvider", "cuda"],
  ["TensorrtExecutionProvider", "tensorrt"],
]);

export interface NodeCounter extends Omit<RunProfiler, "finish"> {
  /** Ends counting after one run. @returns undefined if the profile could not be written or read */
  finish(session: InferenceSession): NodeCounts | undefined;
}

/** @returns undefined if no file can be written, because a count must not fail a session */
export function createNodeCounter(): NodeCounter | undefined {
  const profiler = createRunProfiler();
  return (
    profiler && { ...profiler, finish: (session) => countNodesByProvider(profiler.finish(session)) }
  );
}

function countNodesByProvider(events: readonly NodeEvent[] | undefined): NodeCounts | undefined {
  if (events === undefined) return undefined;
  const counts: Partial<Record<ExecutionProviderName, number>> = {};
  for (const { provider, operator } of events) {
    const name = PROVIDER_NAMES.get(provider);
    if (name !== undefined && !operator.startsWith("Memcpy"))
      counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}
