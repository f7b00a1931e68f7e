// Region call: derives the metadata of a call to a region from the client's request.

import type { Deadline } from "../cascade/deadline.ts";
import type { RegionCall } from "../region/region-client.ts";
import type { RequestContext } from "./request-context.ts";

export function createRegionCall(
  { model, version }: Pick<RegionCall, "model" | "version">,
  context: RequestContext,
  deadline: Deadline,
): RegionCall {
  const { requestId, span, geo, waitUntil } = context;
  return {
    model,
    version,
    requestId,
    timeoutMs: deadline.remainingMs(),
    waitUntil,
    span,
    ...(geo && { clientLocation: geo }),
  };
}
