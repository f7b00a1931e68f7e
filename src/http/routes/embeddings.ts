// Embeddings route: POST /v1/embeddings, in OpenAI's format.

import { Hono } from "hono";
import { coreErrors } from "../../core/common-errors.ts";
import { formatZodIssues } from "../../core/config.ts";
import {
  EMBEDDINGS_PATH,
  embeddingsRequestSchema,
  toEmbeddingsResponse,
  listInputs,
} from "../../protocol/embeddings.ts";
import type { Embedder } from "../../serving/embedder.ts";
import { parseRequestedModel } from "../access/requested-model.ts";
import type { AppEnv } from "../app-env.ts";
import { parseDeadlineMs } from "../deadline-header.ts";
import { httpErrors } from "../errors.ts";
import { mediaTypeOf, readBodyJson } from "../request-body.ts";
import { parseCacheMode } from "../requested-cache-mode.ts";

const JSON_MEDIA_TYPE = "application/json";

/** @param defaultModel model of requests that name none */
export function embeddingsRoutes(
  embedder: Embedder,
  defaultModel: string | undefined,
): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();

  routes.post(EMBEDDINGS_PATH, async (c) => {
    const mediaType = mediaTypeOf(c.req);
    if (mediaType !== JSON_MEDIA_TYPE)
      throw coreErrors.unsupportedMediaType(mediaType, [JSON_MEDIA_TYPE]);
    const parsed = embeddingsRequestSchema.safeParse(await readBodyJson(c));
    if (!parsed.success) throw coreErrors.invalidRequest(formatZodIssues(parsed.error));
    const { model = defaultModel, encoding_format: format, dimensions } = parsed.data;
    if (model === undefined) throw httpErrors.missingModel();

    const request = {
      ref: parseRequestedModel(c, model),
      inputs: listInputs(parsed.data),
      dimensions,
      cacheMode: parseCacheMode(c.req, parsed.data.cache),
      deadlineMs: parseDeadlineMs(c.req),
    };
    const embeddings = await embedder.embed(request, c.get("context"));
    c.header("x-edgetier-tier", embeddings.tiers.join(", "));
    c.header("x-edgetier-cache", embeddings.cacheResult);
    c.header("cache-control", "no-store");
    return c.json(toEmbeddingsResponse(embeddings, format));
  });

  return routes;
}
