// EdgeTier's client, for browsers, React Native and Node: no dependencies, no platform's own API.

export { type AnswerStore, createAnswerStore, type KeptAnswer } from "./response-cache.ts";
export { type Client, type ClientOptions, createClient } from "./client.ts";
export {
  type CallOptions,
  type Connection,
  type ConnectionOptions,
  connect,
} from "./connection.ts";
export { embed, type Embeddings, type EmbedOptions } from "./embed.ts";
export { type ClientFault, EdgeTierError } from "./errors.ts";
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
  type PredictionOf,
  type PredictInput,
  type PredictOptions,
  type PredictOutput,
  predict,
} from "./predict.ts";
export { createRegions, listRegions, type Regions } from "./region-selector.ts";
