// GET /v1/models and GET /v1/models/{model}: what is served.

import { Hono } from "hono";
import type { ModelDetail } from "../../protocol/models.ts";
import { sharesOf } from "../../registry/aliases.ts";
import { type Aliases, aliasedVersion, type TierManifest } from "../../registry/manifest.ts";
import type { Catalogue } from "../../serving/catalogue.ts";
import type { EdgeSessions } from "../../serving/edge-sessions.ts";
import { mayAsk, requestedModel } from "../access/requested-model.ts";
import type { AppEnv } from "../app-env.ts";

export function modelRoutes(
  catalogue: Catalogue,
  sessions: Pick<EdgeSessions, "servingOf">,
): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();

  routes.get("/v1/models", async (c) => {
    const names = (await catalogue.models()).filter((model) => mayAsk(c, model));
    const models = names.map(async (model) => ({
      model,
      ...aliasesOf(await catalogue.aliases(model, c.get("context"))),
    }));
    return c.json({ models: await Promise.all(models) });
  });

  routes.get("/v1/models/:model", async (c) => {
    const ref = requestedModel(c, c.req.param("model"));
    const { manifest } = await catalogue.resolve(ref, c.get("context"));
    const detail: ModelDetail = {
      model: ref.model,
      ...aliasesOf(await catalogue.aliases(ref.model, c.get("context"))),
      versions: await catalogue.versions(ref.model),
      version: manifest.version,
      task: manifest.task,
      description: manifest.description,
      deadlineMs: manifest.deadlineMs,
      tiers: manifest.tiers.map((tier) => ({
        id: tier.id,
        place: tier.place,
        precision: tier.precision,
        bytes: tier.graph.size,
        ...exitOf(tier),
        ...(tier.p95Ms === undefined ? {} : { p95Ms: tier.p95Ms }),
        temperature: "calibration" in tier ? tier.calibration.temperature : null,
        figures: tier.figures,
        ...(tier.place === "edge" ? { edge: sessions.servingOf(tier) } : {}),
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

function exitOf(
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

function aliasesOf(aliases: Aliases): Pick<ModelDetail, "aliases" | "weights"> {
  const shares = sharesOf(aliases);
  return {
    aliases: Object.fromEntries(
      Object.entries(aliases).map(([alias, target]) => [alias, aliasedVersion(target)]),
    ),
    ...(shares.length === 0
      ? {}
      : { weights: Object.fromEntries(shares.map(({ alias, weight }) => [alias, weight])) }),
  };
}
