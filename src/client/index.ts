// EdgeTier client for browsers, React Native and Node, without dependencies or platform-specific APIs.

export { type CachedResponse, createResponseCache, type ResponseCache } from "./response-cache.ts";
export { type Client, type ClientOptions, createClient } from "./client.ts";
export {
  type CallOptions,
  type Connection,
  type ConnectionOptions,
  connect,
} from "./connection.ts";
export { embed, type Embeddings, type EmbedOptions } from "./embed.ts";
export { type ClientErrorCode, EdgeTierError } from "./errors.ts";
export {
  infer,
  type Inference,
  type InferOptions,
  type NamedTensors,
  type Tensor,
} from "./infer.ts";
export { getModel, listModels } from "./models.ts";
export {
  type Prediction,
  type PredictionFor,
  type PredictInput,
  type PredictOptions,
  type PredictOutput,
  predict,
} from "./predict.ts";
export { createRegionSelector, listRegions, type RegionSelector } from "./region-selector.ts";
export {
  type AnswerStore,
  type ClientFault,
  createAnswerStore,
  createRegions,
  type KeptAnswer,
  type PredictionOf,
  type Regions,
} from "./deprecated.ts";
