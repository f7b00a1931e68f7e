// What middleware hands to routes.

import type { Span } from "../core/tracing.ts";
import type { RequestContext } from "../serving/request-context.ts";
import type { Authentication } from "./access/authentication.ts";

export interface AppEnv {
  Variables: {
    /** Set by hono/request-id: the client's `x-request-id`, or a new one. */
    requestId: string;
    /** Set where requests have to say whose they are. */
    tenant?: string;
    authentication?: Authentication;
    /** Of a request under /v1, decompressed. */
    maxBodyBytes: number;
    /** Of the whole request. */
    span: Span;
    context: RequestContext;
  };
}
