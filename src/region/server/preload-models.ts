// What is loaded before anyone asks for it.

import { DEFAULT_ALIAS, type ModelRef } from "../../registry/model-ref.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import { shouldPreload, type OperatorConfig } from "./operator-config.ts";
import type { VersionResolver } from "./version-resolver.ts";

/** At the same time: each holds its graph in memory while it is opened. */
const MAX_CONCURRENT_LOADS = 4;

/** For each model that the configuration preloads, what its aliases and its version policy name. @throws model_store_unavailable where all are to be */
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
      const named = await versions
        .listReferenced(model)
        .catch(() => ({ aliases: {}, versions: [] }));
      const own: ModelRef[] = [
        ...Object.keys(named.aliases).map((alias): ModelRef => ({
          model,
          target: { kind: "alias", alias },
        })),
        ...named.versions.map((version): ModelRef => ({
          model,
          target: { kind: "version", version },
        })),
      ];
      return own.length > 0 ? own : [{ model, target: { kind: "alias", alias: DEFAULT_ALIAS } }]; // whose failure says what is missing
    });
  return (await Promise.all(refs)).flat();
}

/** A few at a time. @param load must not throw */
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
