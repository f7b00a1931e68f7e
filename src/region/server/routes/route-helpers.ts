// Helpers of the region's routes: registration, path parameters, sending responses.

import type { HttpBindings } from "@hono/node-server";
import type { Context, Hono } from "hono";
import type { RequestIdVariables } from "hono/request-id";
import type { Span } from "../../../core/tracing.ts";
import { protocolErrors } from "../../../protocol/errors.ts";
import type { BodyVerifier } from "../../../protocol/read-request-body.ts";
import { registryErrors } from "../../../registry/errors.ts";
import { modelNameSchema } from "../../../registry/manifest.ts";
import { parseModelRef, type ModelRef } from "../../../registry/model-ref.ts";
import { negotiateEncoding, compress } from "../response-compression.ts";

/** Purpose of a request, as a metric label: paths invented by clients must not become labels. */
export type RouteAction =
  | "config"
  | "index"
  | "infer"
  | "live"
  | "load"
  | "metadata"
  | "metrics"
  | "model_metadata"
  | "model_ready"
  | "other"
  | "ready"
  | "stats"
  | "unload"
  | "unsupported";

/** The bindings exist on a Node server only. */
export type RegionEnv = {
  Bindings: Partial<HttpBindings>;
  Variables: RequestIdVariables & { action: RouteAction; span: Span; checkBody?: BodyVerifier };
};
export type RegionContext = Context<RegionEnv>;
type Method = "GET" | "POST";

/** Adds a route; any other method is answered with 405. */
export function addRoute(
  app: Hono<RegionEnv>,
  action: RouteAction,
  methods: readonly Method[],
  paths: readonly string[],
  handler: (c: RegionContext) => Promise<Response>,
): void {
  const named = (c: RegionContext) => {
    c.set("action", action);
    return handler(c);
  };
  for (const method of methods) app.on(method, [...paths], named);
  app.on("ALL", [...paths], (c) => {
    c.set("action", action);
    c.header("allow", methods.join(", "));
    throw protocolErrors.methodNotAllowed(c.req.method, methods);
  });
}

export const modelPaths = (suffix: string) => [
  `/v2/models/:model${suffix}`,
  `/v2/models/:model/versions/:version${suffix}`,
];

/** @throws model_not_found, also for an invalid name */
export function readModelName(c: RegionContext): string {
  const name = c.req.param("model") ?? "";
  if (!modelNameSchema.safeParse(name).success) throw registryErrors.modelNotFound(name);
  return name;
}

/** Uses the alias `stable` if the path has no version. @throws model_not_found, invalid_model_name */
export function readModelRef(c: RegionContext): ModelRef {
  const model = readModelName(c);
  const version = c.req.param("version");
  return parseModelRef(version === undefined ? model : `${model}@${version}`);
}

/** Sends a body, compressed if the client prefers that. */
export async function sendBody(
  c: RegionContext,
  body: Uint8Array<ArrayBuffer>,
  headers: Readonly<Record<string, string>>,
): Promise<Response> {
  const encoding = negotiateEncoding(c, body.byteLength);
  if (encoding === "identity") return c.body(body, 200, { ...headers, vary: "accept-encoding" });
  return c.body(await compress(encoding, body), 200, {
    ...headers,
    vary: "accept-encoding",
    "content-encoding": encoding,
  });
}

export async function sendJson(c: RegionContext, value: object): Promise<Response> {
  return await sendBody(c, new TextEncoder().encode(JSON.stringify(value)), {
    "content-type": "application/json",
  });
}
