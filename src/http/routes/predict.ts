// POST, GET and QUERY /v1/models/{model}/predict.

import { type Context, Hono } from "hono";
import { problemsOf } from "../../core/config.ts";
import { errors } from "../../core/errors.ts";
import { type PredictParameters, type PredictResponse, predictBody, predictBodyQuery, predictParameters, predictQuery } from "../../protocol/predict.ts";
import { parseModelRef } from "../../registry/model-ref.ts";
import type { PredictRequest, Prediction, Predictor } from "../../serving/predictor.ts";
import type { AppEnv } from "../app-env.ts";
import { requestedDeadlineMs } from "../deadline-header.ts";
import { mediaTypeOf, readBytes, readJson } from "../request-body.ts";
import { answerEtag, matchesEtag } from "../etag.ts";

const PATH = "/v1/models/:model/predict";
const METHODS = ["GET", "POST", "QUERY"];

interface ParsedRequest {
  readonly inputs: PredictRequest["inputs"];
  readonly parameters: PredictParameters;
}

export function predictRoutes(predictor: Predictor): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();

  async function answer(c: Context<AppEnv>, { inputs, parameters }: ParsedRequest): Promise<Response> {
    const context = c.get("context");
    const prediction = await predictor.predict(
      {
        ref: parseModelRef(c.req.param("model") ?? ""),
        inputs,
        topK: parameters.topK,
        maxTier: parameters.maxTier,
        cache: parameters.cache,
        deadlineMs: requestedDeadlineMs(c.req),
      },
      context,
    );
    c.header("x-edgetier-tier", [...new Set(prediction.outcomes.map((outcome) => outcome.tier))].join(", "));
    c.header("x-edgetier-cache", prediction.cacheLayer);
    if (await setFreshness(c, prediction)) return c.body(null, 304);
    return c.json(responseOf(prediction, context.requestId));
  }

  routes.get(PATH, (c) => answer(c, parseQuery(c)));
  routes.on(["POST", "QUERY"], PATH, async (c) => answer(c, await parseBody(c)));
  routes.all(PATH, (c) => {
    c.header("allow", METHODS.join(", "));
    throw errors.methodNotAllowed(c.req.method, METHODS);
  });
  return routes;
}

function parseQuery(c: Context): ParsedRequest {
  const query = c.req.query();
  if (query["input"] === undefined) throw errors.missingInput();
  const parsed = predictQuery.safeParse(query);
  if (!parsed.success) throw errors.invalidRequest(problemsOf(parsed.error));
  const { input, ...parameters } = parsed.data;
  return { inputs: [input], parameters: predictParameters.parse(parameters) };
}

async function parseBody(c: Context<AppEnv>): Promise<ParsedRequest> {
  const mediaType = mediaTypeOf(c.req);
  if (mediaType !== "application/json") {
    // Whether its model takes the media type is its task's to say.
    const parsed = predictBodyQuery.safeParse(c.req.query());
    if (!parsed.success) throw errors.invalidRequest(problemsOf(parsed.error));
    return { inputs: { mediaType, bytes: await readBytes(c) }, parameters: predictParameters.parse(parsed.data) };
  }
  const parsed = predictBody.safeParse(await readJson(c));
  if (!parsed.success) throw errors.invalidRequest(problemsOf(parsed.error));
  const { inputs, parameters } = parsed.data;
  return { inputs: Array.isArray(inputs) ? inputs : [inputs], parameters: parameters ?? predictParameters.parse({}) };
}

function responseOf({ model, version, outcomes, uses }: Prediction, id: string): PredictResponse {
  const outputs = outcomes.map(({ label, confidence, ranking, tier, degraded, degradedBy }) => ({
    label,
    score: confidence,
    scores: [...ranking],
    tier,
    confidence,
    degraded,
    ...(degradedBy === undefined ? {} : { degradedBy }),
  }));
  return { id, model, version, outputs, usage: { tiers: [...uses] } };
}

/**
 * Sets `etag`, `cache-control` and `cache-tag`. Only safe methods may be kept, and only by asking again each time: an
 * alias moves. @returns whether the client has this very answer already
 */
async function setFreshness(c: Context, { model, version, keys, outcomes }: Prediction): Promise<boolean> {
  const keepable = c.req.method !== "POST" && outcomes.every((outcome) => !outcome.degraded);
  c.header("cache-control", keepable ? "public, no-cache" : "no-store");
  if (!keepable) return false;
  const etag = await answerEtag(keys);
  c.header("etag", etag);
  c.header("cache-tag", `${model},${model}:${version}`);
  return matchesEtag(c.req.header("if-none-match"), etag);
}
