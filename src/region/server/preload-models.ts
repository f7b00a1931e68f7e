// Loads models before their first request.

import { DEFAULT_ALIAS, type ModelRef } from "../../registry/model-ref.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import { shouldPreload, type OperatorConfig } from "./operator-config.ts";
import type { VersionResolver } from "./version-resolver.ts";

/** Limits concurrent loads, as each holds its graph in memory while it is opened. */
const MAX_CONCURRENT_LOADS = 4;

/**
 * Lists the aliases and version-policy versions of each model that is configured for preloading.
 * @throws model_store_unavailable if all models are to be preloaded
 */
export async function listPreloadRefs(
  config: OperatorConfig,
  store: ModelStore,
  versions: VersionResolver,
): Promise<readonly ModelRef[]> {
  const names =
    config.allModels.preload === true ? await store.listModels() : [...config.models.keys()];
  const refs = names
    .filter((model) => shouldPreload(config, model))
    .map(async (model): Promise<readonly ModelRef[]> => {
      const referenced = await versions
        .listReferenced(model)
        .catch(() => ({ aliases: {}, versions: [] }));
      const modelRefs: ModelRef[] = [
        ...Object.keys(referenced.aliases).map((alias): ModelRef => ({
          model,
          target: { kind: "alias", alias },
        })),
        ...referenced.versions.map((version): ModelRef => ({
          model,
          target: { kind: "version", version },
        })),
      ];
      if (modelRefs.length > 0) return modelRefs;
      return [{ model, target: { kind: "alias", alias: DEFAULT_ALIAS } }]; // Loading it fails and reports what is missing.
    });
  return (await Promise.all(refs)).flat();
}

/** Loads a few references at a time. @param load must not throw */
export async function loadConcurrently(
  refs: readonly ModelRef[],
  load: (ref: ModelRef) => Promise<void>,
): Promise<void> {
  const remaining = refs.values();
  const loadRemaining = async () => {
    for (const ref of remaining) await load(ref);
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_LOADS }, loadRemaining));
}
