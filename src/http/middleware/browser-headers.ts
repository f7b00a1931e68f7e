// Browser headers: sets CORS (off by default) and restrictive security headers.

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
/** Browsers cache a preflight response for at most two hours. */
const PREFLIGHT_SECONDS = 7_200;

type Handlers = [MiddlewareHandler<AppEnv>, ...MiddlewareHandler<AppEnv>[]];

export function browserHeaders({ corsOrigins }: AccessPolicy): Handlers {
  const securityHeaders = secureHeaders({
    contentSecurityPolicy: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
    crossOriginResourcePolicy: corsOrigins === undefined ? "same-origin" : "cross-origin",
    strictTransportSecurity: "max-age=15552000", // subdomains may belong to other services
    originAgentCluster: false,
    xDnsPrefetchControl: false,
    xDownloadOptions: false,
    xFrameOptions: false, // replaced by frame-ancestors
    xPermittedCrossDomainPolicies: false,
    xXssProtection: false,
    overwrite: false,
  });
  if (corsOrigins === undefined) return [securityHeaders];
  // `credentials` stays off: pages authenticate with a key and not with cookies.
  const origin = corsOrigins.includes("*") ? "*" : [...corsOrigins];
  return [
    securityHeaders,
    cors({
      origin,
      allowMethods: ["GET", "HEAD", "POST", "QUERY"],
      allowHeaders: REQUEST_HEADERS,
      exposeHeaders: RESPONSE_HEADERS,
      maxAge: PREFLIGHT_SECONDS,
    }),
  ];
}
