// Model routes: GET /v1/models and GET /v1/models/{model}.

import { Hono } from "hono";
import type { ModelDetail } from "../../protocol/model-detail.ts";
import { listWeightedAliases } from "../../registry/aliases.ts";
import { type Aliases, aliasedVersion, type TierManifest } from "../../registry/manifest.ts";
import type { EdgeSessions, EdgeTierStatus } from "../../serving/edge-sessions.ts";
import type { ModelCatalog } from "../../serving/model-catalog.ts";
import { isModelAllowed, parseRequestedModel } from "../access/requested-model.ts";
import type { AppEnv } from "../app-env.ts";

export function modelRoutes(
  catalog: ModelCatalog,
  sessions: Pick<EdgeSessions, "tierStatusOf">,
): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();

  routes.get("/v1/models", async (c) => {
    const names = (await catalog.listModels()).filter((model) => isModelAllowed(c, model));
    const models = names.map(async (model) => ({
      model,
      ...aliasDetailOf(await catalog.readAliases(model, c.get("context"))),
    }));
    return c.json({ models: await Promise.all(models) });
  });

  routes.get("/v1/models/:model", async (c) => {
    const ref = parseRequestedModel(c, c.req.param("model"));
    const { manifest } = await catalog.resolve(ref, c.get("context"));
    const detail: ModelDetail = {
      model: ref.model,
      ...aliasDetailOf(await catalog.readAliases(ref.model, c.get("context"))),
      versions: await catalog.listVersions(ref.model),
      version: manifest.version,
      task: manifest.task,
      description: manifest.description,
      deadlineMs: manifest.deadlineMs,
      tiers: manifest.tiers.map((tier) => ({
        id: tier.id,
        place: tier.place,
        precision: tier.precision,
        bytes: tier.graph.size,
        ...exitDetailOf(tier),
        ...(tier.p95Ms === undefined ? {} : { p95Ms: tier.p95Ms }),
        temperature: "calibration" in tier ? tier.calibration.temperature : null,
        figures: tier.figures,
        ...(tier.place === "edge" ? { edge: edgeDetailOf(sessions.tierStatusOf(tier)) } : {}),
      })),
      ...("risk" in manifest && manifest.risk !== undefined ? { risk: manifest.risk } : {}),
      figures: manifest.figures,
      ...("report" in manifest && manifest.report !== undefined
        ? { report: `/v1/models/${ref.model}@${manifest.version}/report` }
        : {}),
    };
    return c.json(detail);
  });

  return routes;
}

/** Adds the deprecated field `how`, in which `not` stands for `unsupported`. */
function edgeDetailOf(tier: EdgeTierStatus): ModelDetail["tiers"][number]["edge"] {
  return { ...tier, how: tier.status === "unsupported" ? "not" : tier.status };
}

function exitDetailOf(
  tier: TierManifest,
): Pick<ModelDetail["tiers"][number], "exitConfidence" | "saturatedExitConfidence"> {
  const exit = "exit" in tier ? tier.exit : null;
  return {
    exitConfidence: exit?.confidence ?? null,
    ...(exit?.whenSaturated === undefined
      ? {}
      : { saturatedExitConfidence: exit.whenSaturated.confidence }),
  };
}

function aliasDetailOf(aliases: Aliases): Pick<ModelDetail, "aliases" | "weights"> {
  const weightedAliases = listWeightedAliases(aliases);
  return {
    aliases: Object.fromEntries(
      Object.entries(aliases).map(([alias, target]) => [alias, aliasedVersion(target)]),
    ),
    ...(weightedAliases.length === 0
      ? {}
      : {
          weights: Object.fromEntries(weightedAliases.map(({ alias, weight }) => [alias, weight])),
        }),
  };
}
