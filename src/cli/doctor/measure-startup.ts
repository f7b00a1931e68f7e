// Start-up time: measures the CPU time of the Worker's global scope from the non-idle samples of wrangler's profile in workerd.
// Known gap: the profile omits workerd's other threads, which for example compile WebAssembly.

import { readFile } from "node:fs/promises";
import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";
import { cliErrors } from "../errors.ts";
import { runWrangler } from "../local/upload.ts";

const RUNS = 3;

const profileSchema = z.object({
  nodes: z.array(z.object({ id: z.int(), callFrame: z.object({ functionName: z.string() }) })),
  samples: z.array(z.int()),
  /** Time since the previous sample, in microseconds. */
  timeDeltas: z.array(z.number()),
});

/**
 * Measures the start-up three times and returns the median in milliseconds.
 * @param file the bundle that `bundleWorker` wrote
 * @throws not_measured
 */
export async function measureStartup(file: string, signal?: AbortSignal): Promise<number> {
  const profile = `${file}.cpuprofile`;
  const runs: number[] = [];
  try {
    while (runs.length < RUNS) {
      await runWrangler(["check", "startup", "--worker", file, "--outfile", profile], signal);
      runs.push(computeBusyMs(profileSchema.parse(JSON.parse(await readFile(profile, "utf8")))));
    }
  } catch (error) {
    throw cliErrors.notMeasured("The Worker's start-up", reasonOf(error), error);
  }
  return runs.toSorted((a, b) => a - b)[(RUNS - 1) / 2] ?? Number.NaN;
}

/** Sums the time in which the script's thread was not idle. */
function computeBusyMs({ nodes, samples, timeDeltas }: z.output<typeof profileSchema>): number {
  const idle = new Set(
    nodes.filter(({ callFrame }) => callFrame.functionName === "(idle)").map(({ id }) => id),
  );
  return samples.reduce(
    (sum, node, index) => sum + (idle.has(node) ? 0 : (timeDeltas[index] ?? 0) / 1000),
    0,
  );
}
