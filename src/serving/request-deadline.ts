// Request deadline: starts the deadline that the client sets, or the model's default.

import { type Deadline, startDeadline } from "../cascade/deadline.ts";
import type { Clock } from "../core/clock.ts";
import type { Manifest } from "../registry/manifest.ts";
import type { RequestContext } from "./request-context.ts";

/** @param deadlineMs strict deadline set by the client; undefined for the model's default */
export function startRequestDeadline(
  clock: Clock,
  manifest: Pick<Manifest, "deadlineMs">,
  deadlineMs: number | undefined,
  { arrivedAtMs, disconnectSignal }: RequestContext,
): Deadline {
  return startDeadline(clock, {
    budgetMs: deadlineMs ?? manifest.deadlineMs,
    isStrict: deadlineMs !== undefined,
    arrivedAtMs,
    disconnectSignal,
  });
}
