// CPU time of the Worker's global scope: wrangler profiles it in workerd, and the samples that are not idle are counted.
// Known gap: what workerd does on other threads, such as compiling WebAssembly, is not in such a profile.

import { cliErrors } from "../errors.ts";
import { readFile } from "node:fs/promises";
import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";
import { runWrangler } from "../local/upload.ts";

const RUNS = 3;

const profileSchema = z.object({
  nodes: z.array(z.object({ id: z.int(), callFrame: z.object({ functionName: z.string() }) })),
  samples: z.array(z.int()),
  /** Microseconds. */
  timeDeltas: z.array(z.number()),
});

/** @param file that `bundleWorker` wrote @returns milliseconds, the median of three @throws not_measured */
export async function measureStartup(file: string, signal?: AbortSignal): Promise<number> {
  const profile = `${file}.cpuprofile`;
  const runs: number[] = [];
  try {
    while (runs.length < RUNS) {
      await runWrangler(["check", "startup", "--worker", file, "--outfile", profile], signal);
      runs.push(busyMs(profileSchema.parse(JSON.parse(await readFile(profile, "utf8")))));
    }
  } catch (error) {
    throw cliErrors.notMeasured("The Worker's start-up", reasonOf(error), error);
  }
  return runs.toSorted((a, b) => a - b)[(RUNS - 1) / 2] ?? Number.NaN;
}

/** Time in which the script's thread did anything. */
function busyMs({ nodes, samples, timeDeltas }: z.output<typeof profileSchema>): number {
  const idle = new Set(
    nodes.filter(({ callFrame }) => callFrame.functionName === "(idle)").map(({ id }) => id),
  );
  return samples.reduce(
    (sum, node, index) => sum + (idle.has(node) ? 0 : (timeDeltas[index] ?? 0) / 1000),
    0,
  );
}
