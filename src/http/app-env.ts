// App environment: the variables that middleware sets for routes.

import type { Span } from "../core/tracing.ts";
import type { RequestContext } from "../serving/request-context.ts";
import type { Authentication } from "./access/authentication.ts";

export interface AppEnv {
  Variables: {
    /** Set by hono/request-id: the client's `x-request-id`, or a new one. */
    requestId: string;
    /** Tenant of the credential; absent if the deployment requires none. */
    tenant?: string;
    authentication?: Authentication;
    /** Maximum size of a decompressed body under /v1, in bytes. */
    maxBodyBytes: number;
    /** Root span of the request. */
    span: Span;
    context: RequestContext;
  };
}
