// Batch sizes: reads the number of rows of each run from a server's own statistics (Triton's statistics extension), before and after a load.
import * as z from "zod";
import type { Target } from "./target.ts";

const statistics = z.object({
  model_stats: z.array(
    z.object({
      batch_stats: z.array(
        z.object({ batch_size: z.int(), compute_infer: z.object({ count: z.int() }) }),
      ),
    }),
  ),
});

/** Runs by their rows; undefined where the server does not tell. */
export async function readBatchCounts(
  target: Target,
  model: string,
): Promise<Map<number, number> | undefined> {
  const { status, body } = await target.send({ path: `/v2/models/${model}/stats` });
  if (status !== 200) return undefined;
  const counts = new Map<number, number>();
  for (const { batch_stats } of statistics.parse(JSON.parse(body)).model_stats) {
    for (const { batch_size, compute_infer } of batch_stats)
      counts.set(batch_size, (counts.get(batch_size) ?? 0) + compute_infer.count);
  }
  return counts;
}

/** @returns mean rows of a run, and the shares of runs by size up to powers of two */
export function batchSizesBetween(
  before: ReadonlyMap<number, number> | undefined,
  after: ReadonlyMap<number, number> | undefined,
): Record<string, number | string> {
  if (before === undefined || after === undefined) return {};
  const runs = [...after]
    .map(([rows, count]) => ({ rows, count: count - (before.get(rows) ?? 0) }))
    .filter(({ count }) => count > 0);
  const all = runs.reduce((sum, { count }) => sum + count, 0);
  if (all === 0) return {};
  const shares = new Map<number, number>();
  for (const { rows, count } of runs.toSorted((a, b) => a.rows - b.rows)) {
    const bucket = 2 ** Math.ceil(Math.log2(rows));
    shares.set(bucket, (shares.get(bucket) ?? 0) + count / all);
  }
  const meanBatchRows = Number(
    (runs.reduce((sum, { rows, count }) => sum + rows * count, 0) / all).toPrecision(3),
  );
  const batchRows = [...shares]
    .map(
      ([bucket, share]) =>
        `${bucket > 2 ? `${bucket / 2 + 1}-` : ""}${bucket}: ${Math.round(share * 100)} %`,
    )
    .join(", ");
  return { meanBatchRows, batchRows };
}
