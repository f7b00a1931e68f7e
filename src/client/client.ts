// Client object: all functions of this package with one connection and shared defaults. An app that needs fewer bytes
// imports `connect` and single functions instead.

import type { EmbeddingsRequest } from "../protocol/embeddings.ts";
import type { ModelDetail, ModelList } from "../protocol/model-detail.ts";
import type { RegionList } from "../protocol/region-list.ts";
import { type CallOptions, connect, type ConnectionOptions } from "./connection.ts";
import { embed, type Embeddings, type EmbedOptions } from "./embed.ts";
import { infer, type Inference, type InferOptions, type NamedTensors } from "./infer.ts";
import { getModel, listModels } from "./models.ts";
import { type PredictInput, type PredictionFor, type PredictOptions, predict } from "./predict.ts";
import { createRegionSelector, listRegions } from "./region-selector.ts";
import { withCurrentNames } from "./renamed-options.ts";
import type { ResponseCache } from "./response-cache.ts";

/**
 * Options of {@link createClient}: the connection, and defaults for its calls.
 *
 * @example
 * import { type ClientOptions, createClient, createResponseCache } from "edgetier/client";
 *
 * const options: ClientOptions = {
 *   url: "https://predict.example.com",
 *   responseCache: createResponseCache(),
 *   staleIfError: true,
 * };
 * const client = createClient(options);
 */
export interface ClientOptions extends ConnectionOptions {
  /** Default `responseCache` of all predictions. */
  readonly responseCache?: ResponseCache | undefined;
  /** Default `staleIfError` of all predictions. */
  readonly staleIfError?: boolean | undefined;
  /**
   * Sends tensors (`infer`) to the nearest region first, and to the edge if that fails. Defaults to false, which always
   * calls the edge.
   */
  readonly prefersNearestRegion?: boolean | undefined;
  /** @deprecated Use `responseCache`. */
  readonly answers?: ResponseCache | undefined;
  /** @deprecated Use `staleIfError`. */
  readonly offline?: boolean | undefined;
  /** @deprecated Use `prefersNearestRegion`. */
  readonly direct?: boolean | undefined;
}

/**
 * Client of one deployment, made by {@link createClient}.
 *
 * @example
 * import { type Client, createClient } from "edgetier/client";
 *
 * const client: Client = createClient({ url: "https://predict.example.com" });
 * const models = await client.models();
 */
export interface Client {
  /** Classifies texts and images. See {@link predict}. */
  predict<const Input extends PredictInput | readonly PredictInput[]>(
    model: string,
    input: Input,
    options?: PredictOptions,
  ): Promise<PredictionFor<Input>>;
  /** Computes vectors of texts. See {@link embed}. */
  embed(input: EmbeddingsRequest["input"], options?: EmbedOptions): Promise<Embeddings>;
  /** Runs a model on tensors. See {@link infer}. */
  infer(model: string, inputs: NamedTensors, options?: InferOptions): Promise<Inference>;
  /** Lists the models. See {@link listModels}. */
  models(options?: CallOptions): Promise<ModelList["models"]>;
  /** Describes one model. See {@link getModel}. */
  model(model: string, options?: CallOptions): Promise<ModelDetail>;
  /** Lists the regions, nearest first. See {@link listRegions}. */
  regions(options?: CallOptions): Promise<RegionList["regions"]>;
}

/**
 * Creates a client of one deployment. It opens no connection before the first call.
 *
 * @example
 * import { createClient } from "edgetier/client";
 *
 * const client = createClient({ url: "https://predict.example.com", deadlineMs: 300 });
 * const { outputs } = await client.predict("intent", "what is my balance");
 * console.log(outputs[0].label, outputs[0].confidence, outputs[0].degraded);
 */
export function createClient(options: ClientOptions): Client {
  const current = withCurrentNames(options);
  const connection = connect(current);
  const { responseCache, staleIfError } = current;
  const regions = current.prefersNearestRegion === true ? createRegionSelector() : undefined;
  return {
    predict: (model, input, call = {}) =>
      predict(connection, model, input, {
        responseCache,
        staleIfError,
        ...withCurrentNames(call),
      }),
    embed: (input, call) => embed(connection, input, call),
    infer: (model, inputs, call) => infer(connection, model, inputs, { regions, ...call }),
    models: (call) => listModels(connection, call),
    model: (model, call) => getModel(connection, model, call),
    regions: (call) => listRegions(connection, call),
  };
}
