// Routes about models: metadata, readiness, configuration, statistics.

import type { Hono } from "hono";
import type { ModelMetadata } from "../../../protocol/open-inference.ts";
import { parseModelRef, type ModelRef } from "../../../registry/model-ref.ts";
import { regionErrors } from "../../errors.ts";
import { regionServerErrors } from "../errors.ts";
import type { LoadedRegionModel } from "../load-region-model.ts";
import { toModelConfiguration } from "../model-configuration.ts";
import { declaredInputsOf } from "../model-inputs.ts";
import type { ModelRepository } from "../model-repository.ts";
import { versionPolicyOf, type OperatorConfig } from "../operator-config.ts";
import type { InferenceStatistics } from "../statistics.ts";
import {
  addRoute,
  modelPaths,
  readModelName,
  readModelRef,
  sendJson,
  type RegionEnv,
} from "./route-helpers.ts";

export interface ModelRouteDependencies {
  readonly repository: ModelRepository;
  readonly statistics: InferenceStatistics;
  readonly operatorConfig: OperatorConfig;
}

export function addModelRoutes(
  app: Hono<RegionEnv>,
  { repository, statistics, operatorConfig }: ModelRouteDependencies,
): void {
  const statisticsOf = (models: readonly LoadedRegionModel[]) => ({
    model_stats: models.map(({ manifest }) => statistics.read(manifest.model, manifest.version)),
  });

  // This route precedes those with a model name, because `stats` takes the name's place.
  addRoute(app, "stats", ["GET"], ["/v2/models/stats"], (c) =>
    sendJson(c, statisticsOf(repository.listLoaded())),
  );

  addRoute(app, "stats", ["GET"], ["/v2/models/:model/stats"], async (c) => {
    const model = readModelName(c);
    const loaded = repository.listLoaded().filter(({ manifest }) => manifest.model === model);
    if (loaded.length === 0) return await rejectNotLoaded(repository, parseModelRef(model));
    return await sendJson(c, statisticsOf(loaded));
  });

  addRoute(app, "stats", ["GET"], ["/v2/models/:model/versions/:version/stats"], async (c) => {
    const ref = readModelRef(c);
    const loaded = await repository.findLoaded(ref);
    if (loaded === undefined) return await rejectNotLoaded(repository, ref);
    return await sendJson(c, statisticsOf([loaded]));
  });

  addRoute(app, "model_ready", ["GET"], modelPaths("/ready"), async (c) => {
    const ref = readModelRef(c);
    if (!(await repository.isReady(ref))) throw regionErrors.modelNotReady(ref.model);
    return c.body(null, 200);
  });

  addRoute(app, "config", ["GET"], modelPaths("/config"), async (c) => {
    const ref = readModelRef(c);
    return await sendJson(
      c,
      await repository.withModel(ref, (model) =>
        toModelConfiguration(model, versionPolicyOf(operatorConfig, ref.model)),
      ),
    );
  });

  addRoute(app, "model_metadata", ["GET"], modelPaths(""), async (c) => {
    const { manifest, versions } = await repository.describe(readModelRef(c));
    const tier = manifest.tiers.findLast(({ place }) => place === "region");
    if (tier === undefined) throw regionServerErrors.noRegionTier(manifest.model, manifest.version);
    const metadata: ModelMetadata = {
      name: manifest.model,
      versions: versions.map(String),
      platform: "onnxruntime_onnx",
      inputs: declaredInputsOf(manifest, tier),
      outputs: tier.outputs,
    };
    return await sendJson(c, metadata);
  });
}

/** @throws not_loaded for an existing model; otherwise model_not_found and the other errors of its metadata */
async function rejectNotLoaded(repository: ModelRepository, ref: ModelRef): Promise<never> {
  await repository.describe(ref);
  throw regionServerErrors.notLoaded(
    ref.model,
    ref.target.kind === "version" ? ref.target.version : undefined,
  );
}
