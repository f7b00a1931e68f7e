// Model list and model details.

import type { ModelDetail, ModelList } from "../protocol/model-detail.ts";
import { type CallOptions, type Connection, readJsonBody, send } from "./connection.ts";

/**
 * Lists the deployment's models with their aliases.
 *
 * @throws EdgeTierError, or the reason of the caller's signal
 * @example
 * import { connect, listModels } from "edgetier/client";
 *
 * const models = await listModels(connect({ url: "https://predict.example.com" }));
 * console.log(models.map(({ model }) => model));
 */
export const listModels = async (
  connection: Connection,
  options: CallOptions = {},
): Promise<ModelList["models"]> =>
  (await send(connection, "/v1/models", {}, readJsonBody<ModelList>, options)).models;

/**
 * Describes one version of a model: task, tiers and limits.
 *
 * @param model `name`, `name@version` or `name@alias`
 * @throws EdgeTierError, or the reason of the caller's signal
 * @example
 * import { connect, getModel } from "edgetier/client";
 *
 * const connection = connect({ url: "https://predict.example.com" });
 * const { version, tiers } = await getModel(connection, "intent@stable");
 */
export const getModel = (
  connection: Connection,
  model: string,
  options: CallOptions = {},
): Promise<ModelDetail> =>
  send(
    connection,
    `/v1/models/${encodeURIComponent(model)}`,
    {},
    readJsonBody<ModelDetail>,
    options,
  );
