// Whose a request is, once that has been asked, and which models that one may ask.

import type { Context } from "hono";
import { type EdgeTierError, errors } from "../../core/errors.ts";
import { type ModelRef, parseModelRef } from "../../registry/model-ref.ts";
import type { AppEnv } from "../app-env.ts";
import type { Principal } from "./authenticator.ts";

/** A refusal is kept until the request has been counted. */
export type Identity = { readonly principal: Principal } | { readonly refusal: EdgeTierError };

export const principalOf = (identity: Identity | undefined): Principal | undefined => (identity !== undefined && "principal" in identity ? identity.principal : undefined);

export function mayAsk(c: Context<AppEnv>, model: string): boolean {
  return principalOf(c.get("identity"))?.models?.includes(model) ?? true;
}

/** The model that a request names. @throws invalid_model_name, model_not_allowed */
export function requestedModel(c: Context<AppEnv>, text: string): ModelRef {
  const ref = parseModelRef(text);
  if (!mayAsk(c, ref.model)) throw errors.modelNotAllowed(ref.model);
  return ref;
}
