// Where a graph's time goes, by operator: from ONNX Runtime's profiler, in onnxruntime-node and in the Worker's engine.
// The latter runs in Node: in workerd the clock stands still while it computes.

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
  /** Of the graph as ONNX Runtime has optimised it. */
  readonly nodes: number;
  /** Mean of one run of the graph. */
  readonly msPerRun: number;
  /** Of the time of all nodes. */
  readonly share: number;
}

/** @returns the most expensive first; empty where no profile can be written @throws what ONNX Runtime throws */
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
 * The engine's standard output is written a kilobyte at a time, so that the last events of the last run are missing.
 * @returns as profileNativeOperators
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

/** @param events of `runs` runs */
export function sumByOperator(events: readonly NodeEvent[], runs: number): OperatorTime[] {
  const totalMicros = events.reduce(
    (sum, { durationUs: durationMicros }) => sum + durationMicros,
    0,
  );
  return [...Map.groupBy(events, ({ operator }) => operator)]
    .map(([operator, own]): OperatorTime => {
      const micros = own.reduce((sum, { durationUs: durationMicros }) => sum + durationMicros, 0);
      return {
        operator,
        nodes: new Set(own.map(({ node }) => node)).size,
        msPerRun: micros / 1000 / runs,
        share: micros / Math.max(1, totalMicros),
      };
    })
    .toSorted((a, b) => b.msPerRun - a.msPerRun);
}
