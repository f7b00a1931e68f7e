// The deadline of a request: what its client named, or its model's own.

import { type Deadline, startDeadline } from "../cascade/deadline.ts";
import type { Clock } from "../core/clock.ts";
import type { Manifest } from "../registry/manifest.ts";
import type { RequestContext } from "./request-context.ts";

/** @param deadlineMs as the client named it: then no answer comes later */
export function startRequestDeadline(
  clock: Clock,
  manifest: Pick<Manifest, "deadlineMs">,
  deadlineMs: number | undefined,
  { arrivedAtMs, disconnectSignal: clientGone }: RequestContext,
): Deadline {
  return startDeadline(clock, {
    budgetMs: deadlineMs ?? manifest.deadlineMs,
    isStrict: deadlineMs !== undefined,
    arrivedAtMs,
    disconnectSignal: clientGone,
  });
}
