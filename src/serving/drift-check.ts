// Drift check: re-runs a share of requests with early exits on the last tier, after the response, and counts agreements.
// Thresholds were chosen on samples, and traffic drifts away from them.

import type { CascadeOutcome, CascadeTier } from "../cascade/cascade.ts";
import { startDeadline } from "../cascade/deadline.ts";
import type { Clock } from "../core/clock.ts";
import type { TaskInput } from "../tasks/task.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";
import { hashToFraction } from "./canary.ts";
import type { RequestContext } from "./request-context.ts";

export interface DriftCheckOptions {
  /** Share of checked requests, from 0 to 1; the request id decides. */
  readonly sampleRate: number;
  /** Maximum number of concurrent checks in this isolate; further requests are skipped. */
  readonly maxConcurrent: number;
  readonly clock: Clock;
  readonly metrics: EdgeMetrics;
}

/** Request that the cascade has just answered without a cache. */
export interface AnsweredRequest {
  readonly model: string;
  readonly version: number;
  readonly deadlineMs: number;
  readonly tiers: readonly CascadeTier[];
  readonly answers: readonly { readonly input: TaskInput; readonly outcome: CascadeOutcome }[];
}

export interface DriftCheck {
  /** Runs in the background and never throws. */
  sampleRequest(answered: AnsweredRequest, context: RequestContext): void;
}

/** Time after its deadline at which a check's slot is free again, because the platform may end the check silently. */
const GRACE_MS = 1_000;

export function createDriftCheck({
  sampleRate,
  maxConcurrent,
  clock,
  metrics,
}: DriftCheckOptions): DriftCheck {
  let running: readonly { readonly endsAtMs: number }[] = [];

  async function runCheck(
    { model, version, deadlineMs, tiers, answers }: AnsweredRequest,
    context: RequestContext,
  ): Promise<void> {
    const last = tiers.at(-1);
    const early = answers.filter(({ outcome }) => !outcome.degraded && outcome.tier !== last?.id);
    if (last === undefined || early.length === 0) return;
    if ((await hashToFraction(`drift ${model} ${context.requestId}`)) >= sampleRate) return;
    running = running.filter(({ endsAtMs }) => endsAtMs > clock.now());
    if (running.length >= maxConcurrent) return;
    const slot = { endsAtMs: clock.now() + deadlineMs + GRACE_MS };
    running = [...running, slot];
    const count = (tier: string, result: string) =>
      metrics.count("edgetier_drift_checks_total", {
        model,
        version: String(version),
        tier,
        result,
      });
    const deadline = startDeadline(clock, { budgetMs: deadlineMs, isStrict: true });
    try {
      const checked = await deadline.race(
        last.predict(
          early.map(({ input }) => input),
          deadline,
        ),
      );
      early.forEach(({ outcome }, row) =>
        count(outcome.tier, checked[row]?.label === outcome.label ? "agrees" : "differs"),
      );
    } catch {
      for (const { outcome } of early) count(outcome.tier, "failed");
    } finally {
      deadline.dispose();
      running = running.filter((check) => check !== slot);
    }
  }

  return {
    sampleRequest(answered, context) {
      if (sampleRate > 0) context.waitUntil(runCheck(answered, context));
    },
  };
}
