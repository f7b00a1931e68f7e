// Whether early exits still answer as the last tier would: a share of the requests is asked again, after the response, and what
// comes of it is counted. Thresholds were chosen on samples; traffic moves away from them.

import type { CascadeOutcome, CascadeTier } from "../cascade/cascade.ts";
import { startDeadline } from "../cascade/deadline.ts";
import type { Clock } from "../core/clock.ts";
import type { TaskInput } from "../tasks/task.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";
import { hashToFraction } from "./canary.ts";
import type { RequestContext } from "./request-context.ts";

export interface DriftCheckOptions {
  /** Of the requests, by their ids, from 0 to 1. */
  readonly sampleRate: number;
  /** Requests that this isolate checks at the same time; further ones are left out. */
  readonly maxConcurrent: number;
  readonly clock: Clock;
  readonly metrics: EdgeMetrics;
}

/** What one request has been answered with, by its cascade and just now. */
export interface AnsweredRequest {
  readonly model: string;
  readonly version: number;
  /** For the check, as for any request. */
  readonly deadlineMs: number;
  readonly tiers: readonly CascadeTier[];
  readonly answers: readonly { readonly input: TaskInput; readonly outcome: CascadeOutcome }[];
}

export interface DriftCheck {
  /** Never throws; nothing is to wait for it. */
  sampleRequest(answered: AnsweredRequest, context: RequestContext): void;
}

/** A check that the platform has ended with its request says so to nobody: its place is free again so long after its deadline. */
const GRACE_MS = 1_000;

export function createDriftCheck({
  sampleRate: share,
  maxConcurrent,
  clock,
  metrics,
}: DriftCheckOptions): DriftCheck {
  let running: readonly { readonly endsAtMs: number }[] = [];

  async function check(
    { model, version, deadlineMs, tiers, answers }: AnsweredRequest,
    context: RequestContext,
  ): Promise<void> {
    const last = tiers.at(-1);
    const early = answers.filter(({ outcome }) => !outcome.degraded && outcome.tier !== last?.id);
    if (last === undefined || early.length === 0) return;
    if ((await hashToFraction(`drift ${model} ${context.requestId}`)) >= share) return;
    running = running.filter(({ endsAtMs }) => endsAtMs > clock.now());
    if (running.length >= maxConcurrent) return;
    const place = { endsAtMs: clock.now() + deadlineMs + GRACE_MS };
    running = [...running, place];
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
      running = running.filter((one) => one !== place);
    }
  }

  return {
    sampleRequest(answered, context) {
      if (share > 0) context.waitUntil(check(answered, context));
    },
  };
}
