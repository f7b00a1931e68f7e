import { generateQueries } from "../../../src/cli/load/query-generator.ts";
// Tail calls: creates requests that only the region answers confidently, and records the outcomes of replies.
import { predictResponseSchema } from "../../../src/protocol/predict.ts";
import { type Call, createSender, type Reply } from "../lib/checked-load.ts";
import { MODEL } from "./tail-system.ts";

const PATH = `/v1/models/${MODEL}/predict`;
/** Long enough that no answer reaches the deadline. */
const DEADLINE_MS = 10_000;

export function createPredictCall(query: string, cache: "use" | "bypass" = "bypass"): Call {
  return {
    path: PATH,
    body: JSON.stringify({ inputs: query, parameters: { cache } }),
    headers: { "x-deadline-ms": String(DEADLINE_MS) },
  };
}

/** @returns queries that the edge tier escalates to the region */
export async function findEscalatedQueries(
  edgeUrl: string,
  count: number,
  seed: number,
): Promise<string[]> {
  const send = createSender(edgeUrl, 4);
  const found: string[] = [];
  try {
    for (const query of generateQueries(40 * count, seed)) {
      const [output] = predictResponseSchema.parse(
        JSON.parse((await send(createPredictCall(query))).body),
      ).outputs;
      if (output?.tier.startsWith("region") === true) found.push(query);
      if (found.length === count) return found;
    }
    throw new Error(
      `only ${found.length} of the queries escalate to the region; expected ${count}`,
    );
  } finally {
    send.close();
  }
}

/** Request counts by outcome. */
export interface OutcomeCounts {
  answers: number;
  degraded: number;
  errors: number;
}

export function recordOutcome(
  { status, body }: Reply,
  counts: OutcomeCounts,
): "full" | "degraded" | "error" {
  counts.answers++;
  if (status !== 200) {
    counts.errors++;
    return "error";
  }
  const isDegraded = predictResponseSchema
    .parse(JSON.parse(body))
    .outputs.some(({ degraded }) => degraded);
  if (isDegraded) counts.degraded++;
  return isDegraded ? "degraded" : "full";
}
