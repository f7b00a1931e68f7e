import { generateQueries } from "../../../src/cli/load/query-generator.ts";
// Metrics fixture: the Worker and the requests that both halves of the benchmark share.
import type { WorkerUpload } from "../../../src/cli/local/upload.ts";
import type { Call, Reply } from "../lib/checked-load.ts";
import type { BenchReport } from "../lib/report.ts";

export interface MetricsFixture {
  readonly upload: WorkerUpload;
  readonly folder: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly seed: number;
}

export interface MetricsBenchResult {
  readonly rows: BenchReport["rows"];
  readonly figures: Readonly<Record<string, number>>;
}

const QUERIES = 20;

/** Creates so few different calls that all but the first of each are L1 hits. */
export const createCalls = (seed: number, cache?: "bypass"): Call[] =>
  generateQueries(QUERIES, seed).map((query) => ({
    path: "/v1/models/intent/predict",
    body: JSON.stringify({
      inputs: query,
      parameters: { maxTier: "edge-int8", ...(cache && { cache }) },
    }),
  }));

/** @throws Error */
export function assertOkReply({ status, body }: Pick<Reply, "status" | "body">): void {
  if (status !== 200) throw new Error(`status ${status}: ${body.slice(0, 200)}`);
}
