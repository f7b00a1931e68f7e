// POST, GET and QUERY /v1/models/{model}/predict.

import { protocolErrors } from "../../protocol/errors.ts";
import { httpErrors } from "../errors.ts";
import { coreErrors } from "../../core/common-errors.ts";
import { type Context, Hono } from "hono";
import { formatZodIssues } from "../../core/config.ts";
import {
  type PredictParameters,
  type PredictResponse,
  predictRequestSchema,
  predictParametersQuerySchema,
  predictParametersSchema,
  predictQuerySchema,
} from "../../protocol/predict.ts";
import type { PredictRequest, Prediction, Predictor } from "../../serving/predictor.ts";
import { parseRequestedModel } from "../access/requested-model.ts";
import type { AppEnv } from "../app-env.ts";
import { parseCacheMode } from "../requested-cache-mode.ts";
import { parseDeadlineMs } from "../deadline-header.ts";
import { computeEtag, matchesEtag } from "../etag.ts";
import { type CacheHeaderOptions, setCacheHeaders } from "../cache-headers.ts";
import { mediaTypeOf, readBodyBytes, readBodyJson } from "../request-body.ts";

const PATH = "/v1/models/:model/predict";
const METHODS = ["GET", "POST", "QUERY"];

interface ParsedRequest {
  readonly inputs: PredictRequest["inputs"];
  readonly parameters: PredictParameters;
}

export function predictRoutes(predictor: Predictor, options: CacheHeaderOptions): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();

  async function answer(
    c: Context<AppEnv>,
    { inputs, parameters }: ParsedRequest,
  ): Promise<Response> {
    const context = c.get("context");
    const ref = parseRequestedModel(c, c.req.param("model") ?? "");
    const cache = parseCacheMode(c.req, parameters.cache);
    const isHeld = async (keys: readonly string[]) =>
      matchesEtag(c.req.header("if-none-match"), await computeEtag(keys));
    const prediction = await predictor.predict(
      {
        ref,
        inputs,
        topK: parameters.topK,
        maxTier: parameters.maxTier,
        cacheMode: cache,
        deadlineMs: parseDeadlineMs(c.req),
        ...(c.req.method === "POST" || cache === "refresh" || cache === "bypass"
          ? {}
          : { isNotModified: isHeld }),
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
    const { isCacheable: isKeepable, isSharedCacheable: isShared } = setCacheHeaders(
      c,
      ref,
      cache !== "bypass" && parameters.cache !== "refresh",
      prediction,
      options,
    );
    if (!isKeepable) return c.json(responseOf(prediction, context.requestId, prediction.tierUsage));

    const etag = await computeEtag(prediction.cacheKeys);
    c.header("etag", etag);
    if (isShared) c.header("x-request-id", undefined); // the client may have chosen it, and others will get this answer
    if (await isHeld(prediction.cacheKeys)) return c.body(null, 304);
    // A strong ETag stands for bytes: nothing in them is of this request.
    return c.json(responseOf(prediction, etag.replaceAll('"', ""), []));
  }

  routes.get(PATH, (c) => answer(c, parseQuery(c)));
  routes.on(["POST", "QUERY"], PATH, async (c) => answer(c, await parseBody(c)));
  routes.all(PATH, (c) => {
    c.header("allow", METHODS.join(", "));
    throw protocolErrors.methodNotAllowed(c.req.method, METHODS);
  });
  return routes;
}

/** Each parameter once: a cache in front may take another one of several for the one that counts. @throws repeated_parameter */
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
    // Whether its model takes the media type is its task's to say.
    const parsed = predictParametersQuerySchema.safeParse(readQuery(c));
    if (!parsed.success) throw coreErrors.invalidRequest(formatZodIssues(parsed.error));
    return {
      inputs: { mediaType, bytes: await readBodyBytes(c) },
      parameters: predictParametersSchema.parse(parsed.data),
    };
  }
  const parsed = predictRequestSchema.safeParse(await readBodyJson(c));
  if (!parsed.success) throw coreErrors.invalidRequest(formatZodIssues(parsed.error));
  const { inputs, parameters } = parsed.data;
  return {
    inputs: Array.isArray(inputs) ? inputs : [inputs],
    parameters: parameters ?? predictParametersSchema.parse({}),
  };
}

function responseOf(
  { model, version, outcomes }: Prediction,
  id: string,
  uses: Prediction["tierUsage"],
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
  return { id, model, version, outputs, usage: { tiers: [...uses] } };
}
