// Inputs of the model `intent`'s edge tier.
import features from "../../models/intent/artifacts/edge-features.json" with { type: "json" };
import type { NamedTensors } from "../../src/core/tensor.ts";
import { createHashedNgrams } from "../../src/tasks/text/hashed-ngrams.ts";
import { makeQueries } from "../bench/lib/queries.ts";

const { buckets, wordNgrams, charNgrams, maxFeatures } = features;
const idsOf = createHashedNgrams({ kind: "hashed-ngrams", buckets, wordNgrams, charNgrams, maxFeatures });

export function intentInput(text: string): NamedTensors {
  const data = idsOf(text);
  return { ids: { datatype: "INT32", shape: [1, data.length], data } };
}

export const intentQueries = makeQueries(1000, 7);
