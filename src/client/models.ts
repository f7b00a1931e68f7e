// What is served.

import type { ModelDetail, ModelList } from "../protocol/model-detail.ts";
import { type CallOptions, type Connection, readJsonBody, send } from "./connection.ts";

export const listModels = async (
  connection: Connection,
  call: CallOptions = {},
): Promise<ModelList["models"]> =>
  (await send(connection, "/v1/models", {}, readJsonBody<ModelList>, call)).models;

/** @param model `name`, `name@version` or `name@alias` */
export const getModel = (
  connection: Connection,
  model: string,
  call: CallOptions = {},
): Promise<ModelDetail> =>
  send(connection, `/v1/models/${encodeURIComponent(model)}`, {}, readJsonBody<ModelDetail>, call);
