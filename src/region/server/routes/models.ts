// What is known of models: metadata, readiness, configuration, statistics.

import { regionErrors } from "../../errors.ts";
import { regionServerErrors } from "../errors.ts";
import type { Hono } from "hono";
import type { ModelMetadata } from "../../../protocol/open-inference.ts";
import { parseModelRef, type ModelRef } from "../../../registry/model-ref.ts";
import type { LoadedModel } from "../load-model.ts";
import { configurationOf } from "../model-configuration.ts";
import { inputsOf } from "../model-inputs.ts";
import type { ModelRepository } from "../model-repository.ts";
import { versionPolicyOf, type ModelsConfig } from "../models-config.ts";
import type { Statistics } from "../statistics.ts";
import { addRoute, modelPaths, nameOf, refOf, sendJson, type Env } from "./route.ts";

export interface ModelRoutes {
  readonly repository: ModelRepository;
  readonly statistics: Statistics;
  readonly config: ModelsConfig;
}

export function addModelRoutes(
  app: Hono<Env>,
  { repository, statistics, config }: ModelRoutes,
): void {
  const statisticsOf = (models: readonly LoadedModel[]) => ({
    model_stats: models.map(({ manifest }) => statistics.of(manifest.model, manifest.version)),
  });

  // Before those with a model's name: `stats` is in its place.
  addRoute(app, "stats", ["GET"], ["/v2/models/stats"], (c) =>
    sendJson(c, statisticsOf(repository.allLoaded())),
  );

  addRoute(app, "stats", ["GET"], ["/v2/models/:model/stats"], async (c) => {
    const model = nameOf(c);
    const loaded = repository.allLoaded().filter(({ manifest }) => manifest.model === model);
    if (loaded.length === 0) return await explainMissing(repository, parseModelRef(model));
    return await sendJson(c, statisticsOf(loaded));
  });

  addRoute(app, "stats", ["GET"], ["/v2/models/:model/versions/:version/stats"], async (c) => {
    const ref = refOf(c);
    const loaded = await repository.loaded(ref);
    if (loaded === undefined) return await explainMissing(repository, ref);
    return await sendJson(c, statisticsOf([loaded]));
  });

  addRoute(app, "model_ready", ["GET"], modelPaths("/ready"), async (c) => {
    const ref = refOf(c);
    if (!(await repository.isReady(ref))) throw regionErrors.modelNotReady(ref.model);
    return c.body(null, 200);
  });

  addRoute(app, "config", ["GET"], modelPaths("/config"), async (c) => {
    const ref = refOf(c);
    return await sendJson(
      c,
      await repository.use(ref, (model) =>
        configurationOf(model, versionPolicyOf(config, ref.model)),
      ),
    );
  });

  addRoute(app, "model_metadata", ["GET"], modelPaths(""), async (c) => {
    const { manifest, versions } = await repository.describe(refOf(c));
    const tier = manifest.tiers.findLast((one) => one.place === "region");
    if (tier === undefined) throw regionServerErrors.noRegionTier(manifest.model, manifest.version);
    const metadata: ModelMetadata = {
      name: manifest.model,
      versions: versions.map(String),
      platform: "onnxruntime_onnx",
      inputs: inputsOf(manifest, tier),
      outputs: tier.outputs,
    };
    return await sendJson(c, metadata);
  });
}

/** @throws not_loaded for a model that there is; model_not_found and whatever else its metadata is refused with */
async function explainMissing(repository: ModelRepository, ref: ModelRef): Promise<never> {
  await repository.describe(ref);
  throw regionServerErrors.notLoaded(
    ref.model,
    ref.target.kind === "version" ? ref.target.version : undefined,
  );
}
