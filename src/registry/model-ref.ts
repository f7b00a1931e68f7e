// Parses model references: `intent`, `intent@3`, `intent@canary`.

import { registryErrors } from "./errors.ts";
import { aliasNameSchema, modelNameSchema, versionNumberSchema } from "./manifest.ts";

export const DEFAULT_ALIAS = "stable";

export interface ModelRef {
  readonly model: string;
  readonly target:
    | { readonly kind: "version"; readonly version: number }
    | { readonly kind: "alias"; readonly alias: string };
}

/** @throws invalid_model_name */
export function parseModelRef(text: string): ModelRef {
  const [model = "", suffix = DEFAULT_ALIAS, ...rest] = text.split("@");
  if (rest.length > 0 || !modelNameSchema.safeParse(model).success)
    throw registryErrors.invalidModelRef(text);
  if (/^[0-9]+$/.test(suffix)) {
    const version = versionNumberSchema.safeParse(Number(suffix));
    if (!version.success) throw registryErrors.invalidModelRef(text);
    return { model, target: { kind: "version", version: version.data } };
  }
  if (!aliasNameSchema.safeParse(suffix).success) throw registryErrors.invalidModelRef(text);
  return { model, target: { kind: "alias", alias: suffix } };
}
