// What browsers are told: which pages may ask (CORS, off by default), and to trust as little as they can.

import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import { secureHeaders } from "hono/secure-headers";
import type { AccessPolicy } from "../access/access-policy.ts";
import type { AppEnv } from "../app-env.ts";

const REQUEST_HEADERS = [
  "authorization",
  "cache-control",
  "content-type",
  "if-none-match",
  "inference-header-content-length",
  "prefer",
  "traceparent",
  "x-deadline-ms",
  "x-request-id",
];
const RESPONSE_HEADERS = [
  "etag",
  "inference-header-content-length",
  "ratelimit",
  "ratelimit-policy",
  "retry-after",
  "server-timing",
  "www-authenticate",
  "x-edgetier-cache",
  "x-edgetier-tier",
  "x-request-id",
];
const PREFLIGHT_SECONDS = 7_200; // browsers keep none for longer

type Handlers = [MiddlewareHandler<AppEnv>, ...MiddlewareHandler<AppEnv>[]];

export function browserHeaders({ corsOrigins }: AccessPolicy): Handlers {
  const forAll = secureHeaders({
    contentSecurityPolicy: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
    crossOriginResourcePolicy: corsOrigins === undefined ? "same-origin" : "cross-origin",
    strictTransportSecurity: "max-age=15552000", // its sub-domains are not ours to speak for
    originAgentCluster: false,
    xDnsPrefetchControl: false,
    xDownloadOptions: false,
    xFrameOptions: false, // frame-ancestors says it
    xPermittedCrossDomainPolicies: false,
    xXssProtection: false,
    overwrite: false,
  });
  if (corsOrigins === undefined) return [forAll];
  // Without `credentials`: browsers send no cookies, and a page brings its key itself.
  const origin = corsOrigins.includes("*") ? "*" : [...corsOrigins];
  return [
    forAll,
    cors({
      origin,
      allowMethods: ["GET", "HEAD", "POST", "QUERY"],
      allowHeaders: REQUEST_HEADERS,
      exposeHeaders: RESPONSE_HEADERS,
      maxAge: PREFLIGHT_SECONDS,
    }),
  ];
}
