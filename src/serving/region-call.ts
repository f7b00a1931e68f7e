// What every request to a region brings along, of the request that it is made for.

import type { Deadline } from "../cascade/deadline.ts";
import type { RegionCall } from "../region/region-client.ts";
import type { RequestContext } from "./request-context.ts";

export function createRegionCall(
  { model, version }: Pick<RegionCall, "model" | "version">,
  context: RequestContext,
  deadline: Deadline,
): RegionCall {
  const { requestId, span, geo: place, waitUntil } = context;
  return {
    model,
    version,
    requestId,
    timeoutMs: deadline.remainingMs(),
    waitUntil,
    span,
    ...(place && { clientLocation: place }),
  };
}
