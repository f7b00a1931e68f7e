// Predict route: POST, GET and QUERY /v1/models/{model}/predict.

import { type Context, Hono } from "hono";
import { coreErrors } from "../../core/common-errors.ts";
import { formatZodIssues } from "../../core/config.ts";
import {
  type PredictParameters,
  type PredictResponse,
  formatPredictIssues,
  predictRequestSchema,
  predictParametersQuerySchema,
  predictParametersSchema,
  predictQuerySchema,
} from "../../protocol/predict.ts";
import type { PredictRequest, Prediction, Predictor } from "../../serving/predictor.ts";
import { parseRequestedModel } from "../access/requested-model.ts";
import type { AppEnv } from "../app-env.ts";
import { type CacheHeaderOptions, setCacheHeaders } from "../cache-headers.ts";
import { parseDeadlineMs } from "../deadline-header.ts";
import { httpErrors } from "../errors.ts";
import { computeEtag, matchesEtag } from "../etag.ts";
import { mediaTypeOf, readBodyBytes, readBodyJson } from "../request-body.ts";
import { parseCacheMode } from "../requested-cache-mode.ts";

const PATH = "/v1/models/:model/predict";

interface ParsedRequest {
  readonly inputs: PredictRequest["inputs"];
  readonly parameters: PredictParameters;
}

export function predictRoutes(predictor: Predictor, options: CacheHeaderOptions): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();

  async function respond(
    c: Context<AppEnv>,
    { inputs, parameters }: ParsedRequest,
  ): Promise<Response> {
    const context = c.get("context");
    const ref = parseRequestedModel(c, c.req.param("model") ?? "");
    const cacheMode = parseCacheMode(c.req, parameters.cache);
    const isNotModified = async (keys: readonly string[]) =>
      matchesEtag(c.req.header("if-none-match"), await computeEtag(keys));
    const prediction = await predictor.predict(
      {
        ref,
        inputs,
        topK: parameters.topK,
        maxTier: parameters.maxTier,
        cacheMode,
        deadlineMs: parseDeadlineMs(c.req),
        ...(c.req.method === "POST" || cacheMode === "refresh" || cacheMode === "bypass"
          ? {}
          : { isNotModified }),
      },
      context,
    );
    if (prediction.cacheResult !== undefined) {
      c.header(
        "x-edgetier-tier",
        [...new Set(prediction.outcomes.map((outcome) => outcome.tier))].join(", "),
      );
      c.header("x-edgetier-cache", prediction.cacheResult);
    }
    const { isCacheable, isSharedCacheable } = setCacheHeaders(
      c,
      ref,
      cacheMode !== "bypass" && parameters.cache !== "refresh",
      prediction,
      options,
    );
    if (!isCacheable)
      return c.json(toPredictResponse(prediction, context.requestId, prediction.tierUsage));

    const etag = await computeEtag(prediction.cacheKeys);
    c.header("etag", etag);
    if (isSharedCacheable) c.header("x-request-id", undefined); // clients choose it, and a shared cache would expose it
    if (await isNotModified(prediction.cacheKeys)) return c.body(null, 304);
    // A strong ETag identifies the bytes, so the body contains nothing specific to this request.
    return c.json(toPredictResponse(prediction, etag.replaceAll('"', ""), []));
  }

  routes.get(PATH, (c) => respond(c, parseQuery(c)));
  routes.on(["POST", "QUERY"], PATH, async (c) => respond(c, await parseBody(c)));
  return routes;
}

/** Rejects repeated parameters, because a cache in front of the edge may pick another of the values. @throws repeated_parameter */
function readQuery(c: Context): Record<string, string> {
  const repeated = Object.entries(c.req.queries()).find(([, values]) => values.length > 1);
  if (repeated !== undefined) throw httpErrors.repeatedParameter(repeated[0]);
  return c.req.query();
}

function parseQuery(c: Context): ParsedRequest {
  const query = readQuery(c);
  if (query["input"] === undefined) throw httpErrors.missingInput();
  const parsed = predictQuerySchema.safeParse(query);
  if (!parsed.success) throw coreErrors.invalidRequest(formatZodIssues(parsed.error));
  const { input, ...parameters } = parsed.data;
  return { inputs: [input], parameters: predictParametersSchema.parse(parameters) };
}

async function parseBody(c: Context<AppEnv>): Promise<ParsedRequest> {
  const mediaType = mediaTypeOf(c.req);
  if (mediaType !== "application/json") {
    // The model's task checks the media type later.
    const parsed = predictParametersQuerySchema.safeParse(readQuery(c));
    if (!parsed.success) throw coreErrors.invalidRequest(formatZodIssues(parsed.error));
    return {
      inputs: { mediaType, bytes: await readBodyBytes(c) },
      parameters: predictParametersSchema.parse(parsed.data),
    };
  }
  const body = await readBodyJson(c);
  const parsed = predictRequestSchema.safeParse(body);
  if (!parsed.success) throw coreErrors.invalidRequest(formatPredictIssues(parsed.error, body));
  const { inputs, parameters } = parsed.data;
  return {
    inputs: Array.isArray(inputs) ? inputs : [inputs],
    parameters: parameters ?? predictParametersSchema.parse({}),
  };
}

function toPredictResponse(
  { model, version, outcomes }: Prediction,
  id: string,
  tierUsage: Prediction["tierUsage"],
): PredictResponse {
  const outputs = outcomes.map(({ label, confidence, ranking, tier, degraded, degradedBy }) => ({
    label,
    score: confidence,
    scores: [...ranking],
    tier,
    confidence,
    degraded,
    ...(degradedBy === undefined ? {} : { degradedBy }),
  }));
  return { id, model, version, outputs, usage: { tiers: [...tierUsage] } };
}
