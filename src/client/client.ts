// Everything in one object. Who needs a part, and few bytes, takes `connect` and that part's function.

import type { ModelDetail, ModelList } from "../protocol/model-detail.ts";
import type { RegionList } from "../protocol/region-list.ts";
import type { EmbeddingsRequest } from "../protocol/embeddings.ts";
import type { AnswerStore } from "./response-cache.ts";
import { type CallOptions, connect, type ConnectionOptions } from "./connection.ts";
import { embed, type Embeddings, type EmbedOptions } from "./embed.ts";
import { infer, type Inference, type InferOptions, type NamedTensors } from "./infer.ts";
import { getModel, listModels } from "./models.ts";
import { type PredictInput, type PredictionOf, type PredictOptions, predict } from "./predict.ts";
import { createRegions, listRegions } from "./region-selector.ts";

export interface ClientOptions extends ConnectionOptions {
  /** As of `predict`, for all predictions. */
  readonly answers?: AnswerStore | undefined;
  readonly offline?: boolean | undefined;
  /** Asks the nearest region for tensors, and the edge where that fails; false by default: always the edge. */
  readonly direct?: boolean | undefined;
}

export interface Client {
  predict<const Input extends PredictInput | readonly PredictInput[]>(
    model: string,
    input: Input,
    options?: PredictOptions,
  ): Promise<PredictionOf<Input>>;
  embed(input: EmbeddingsRequest["input"], options?: EmbedOptions): Promise<Embeddings>;
  infer(model: string, inputs: NamedTensors, options?: InferOptions): Promise<Inference>;
  models(call?: CallOptions): Promise<ModelList["models"]>;
  model(model: string, call?: CallOptions): Promise<ModelDetail>;
  regions(call?: CallOptions): Promise<RegionList["regions"]>;
}

/**
 * @example
 * const client = createClient({ url: "https://predict.example.com", key, deadlineMs: 300 });
 * const { outputs: [{ label, confidence, degraded }] } = await client.predict("intent", "what is my balance");
 */
export function createClient(options: ClientOptions): Client {
  const connection = connect(options);
  const { answers, offline } = options;
  const regions = options.direct === true ? createRegions() : undefined;
  return {
    predict: (model, input, own) => predict(connection, model, input, { answers, offline, ...own }),
    embed: (input, own) => embed(connection, input, own),
    infer: (model, inputs, own) => infer(connection, model, inputs, { regions, ...own }),
    models: (call) => listModels(connection, call),
    model: (model, call) => getModel(connection, model, call),
    regions: (call) => listRegions(connection, call),
  };
}
