// A graph alone, without a server around it: what batching can gain at most where the session is the limit.
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { summarizeLatencies } from "../lib/checked-load.ts";
import { roundToFourDigits } from "../lib/report.ts";
import type { PartResult } from "./bench-context.ts";
import type { GraphModel } from "./workload.ts";

const BATCHES = [1, 32];
const RUNS = 60;

/** @param inputsOf returns inputs with the given number of rows */
export async function measureBareSession(
  { name, graph }: GraphModel,
  inputsOf: (rows: number) => NamedTensors,
): Promise<PartResult> {
  const session = await createNativeRuntime({ intraOpThreads: 1 }).createSession(graph);
  try {
    const msPerRow = new Map<number, number>();
    for (const batch of BATCHES) {
      const inputs = inputsOf(batch);
      const times: number[] = [];
      for (let run = 0; run < RUNS; run++) {
        const startedMs = performance.now();
        await session.run(inputs);
        times.push(performance.now() - startedMs);
      }
      msPerRow.set(batch, summarizeLatencies(times).p50Ms / batch);
    }
    const rows = [...msPerRow].map(([batch, ms]) => ({
      case: `${name}, session alone, ${batch} rows a run`,
      n: RUNS,
      msPerRow: roundToFourDigits(ms),
      rowsPerSecond: roundToFourDigits(1000 / ms),
    }));
    const [single, many] = [...msPerRow.values()];
    return {
      rows,
      figures: {
        [`sessionAloneRatio.${name}`]: roundToFourDigits(
          (single ?? Number.NaN) / (many ?? Number.NaN),
        ),
      },
    };
  } finally {
    await session.dispose();
  }
}
