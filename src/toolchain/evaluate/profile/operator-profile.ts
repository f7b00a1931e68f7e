// Operator profile: measures a graph's time by operator with ONNX Runtime's profiler, in onnxruntime-node and in the
// Worker's engine. The latter runs in Node, because workerd's clock stops while it computes.

import { InferenceSession } from "onnxruntime-node";
import type { NamedTensors } from "../../../core/tensor.ts";
import { toOrtTensor } from "../../../runtime/native/ort-tensors.ts";
import {
  createRunProfiler,
  type NodeEvent,
  parseNodeEvents,
} from "../../../runtime/native/run-profile.ts";
import { type EngineModule, startEngine } from "../../../runtime/wasm/engine.ts";
import { openSession } from "../../../runtime/wasm/open-session.ts";
import { createWasmSession } from "../../../runtime/wasm/wasm-session.ts";

export interface OperatorTime {
  readonly operator: string;
  /** Number of nodes in the graph as optimized by ONNX Runtime. */
  readonly nodes: number;
  /** Mean time per run of the graph. */
  readonly msPerRun: number;
  /** Share of the time of all nodes. */
  readonly share: number;
}

/** @returns the slowest operators first; empty if no profile can be written @throws Error of ONNX Runtime */
export async function profileNativeOperators(
  graph: Uint8Array,
  inputs: readonly NamedTensors[],
  runs: number,
): Promise<OperatorTime[]> {
  const profiler = createRunProfiler();
  if (profiler === undefined) return [];
  try {
    const session = await InferenceSession.create(graph, {
      intraOpNumThreads: 1,
      ...profiler.sessionOptions,
    });
    const feeds = inputs.map((tensors) =>
      Object.fromEntries(
        Object.entries(tensors).map(([name, tensor]) => [name, toOrtTensor(name, tensor)]),
      ),
    );
    for (let run = 0; run < runs; run++) await session.run(feeds[run % feeds.length] ?? {});
    const events = profiler.finish(session) ?? [];
    await session.release();
    return sumByOperator(events, runs);
  } finally {
    profiler.discard();
  }
}

/**
 * Profiles in the Worker's engine. The last events of the last run are missing, because the engine writes its standard
 * output a kilobyte at a time.
 * @returns the slowest operators first
 * @throws session_failed
 */
export async function profileWasmOperators(
  module: EngineModule,
  graph: Uint8Array,
  inputs: readonly NamedTensors[],
  runs: number,
): Promise<OperatorTime[]> {
  const lines: string[] = [];
  const engine = await startEngine(module, {
    now: () => performance.timeOrigin + performance.now(),
    onStdoutLine: (line) => lines.push(line),
  });
  const opened = openSession(engine, graph, { profile: true });
  const session = createWasmSession(engine, opened);
  for (let run = 0; run < runs; run++) await session.run(inputs[run % inputs.length] ?? {});
  engine.ort._OrtFree(engine.ort._OrtEndProfiling(opened.handle));
  await session.dispose();
  return sumByOperator(parseNodeEvents(lines.join("\n")), runs);
}

/** @param events events of all runs @param runs number of runs */
export function sumByOperator(events: readonly NodeEvent[], runs: number): OperatorTime[] {
  const totalUs = sumDurationsUs(events);
  return [...Map.groupBy(events, ({ operator }) => operator)]
    .map(([operator, operatorEvents]): OperatorTime => {
      const operatorUs = sumDurationsUs(operatorEvents);
      return {
        operator,
        nodes: new Set(operatorEvents.map(({ node }) => node)).size,
        msPerRun: operatorUs / 1000 / runs,
        share: operatorUs / Math.max(1, totalUs),
      };
    })
    .toSorted((a, b) => b.msPerRun - a.msPerRun);
}

const sumDurationsUs = (events: readonly NodeEvent[]): number =>
  events.reduce((sum, { durationUs }) => sum + durationUs, 0);
