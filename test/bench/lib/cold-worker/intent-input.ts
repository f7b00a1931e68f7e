// Creates inputs of models/intent: n-gram IDs of a query.
import features from "../../../../models/intent/artifacts/edge-features.json" with { type: "json" };
import { generateQueries } from "../../../../src/cli/load/query-generator.ts";
import type { NamedTensors } from "../../../../src/core/tensor.ts";
import { createNgramHasher } from "../../../../src/tasks/text/hashed-ngrams.ts";

const idsOf = createNgramHasher({ ...features, kind: "hashed-ngrams" });

export function createInput(seed: number): NamedTensors {
  const data = idsOf(generateQueries(1, seed)[0] ?? "");
  return { ids: { datatype: "INT32", shape: [1, data.length], data } };
}
