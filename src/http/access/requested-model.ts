// Requested model: parses the model reference of a request and checks that the credential allows it.

import type { Context } from "hono";
import { type ModelRef, parseModelRef } from "../../registry/model-ref.ts";
import type { AppEnv } from "../app-env.ts";
import { httpErrors } from "../errors.ts";
import { principalOf } from "./authentication.ts";

export function isModelAllowed(c: Context<AppEnv>, model: string): boolean {
  return principalOf(c.get("authentication"))?.models?.includes(model) ?? true;
}

/** @throws invalid_model_name, model_not_allowed */
export function parseRequestedModel(c: Context<AppEnv>, text: string): ModelRef {
  const ref = parseModelRef(text);
  if (!isModelAllowed(c, ref.model)) throw httpErrors.modelNotAllowed(ref.model);
  return ref;
}
