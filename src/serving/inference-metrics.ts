// What is counted of a request that was served: the one place that knows which metrics a finished answer makes.

import type { CacheStatus } from "../cache/cache-policy.ts";
import type { CascadeOutcome, TierUsage } from "../cascade/cascade.ts";
import { asEdgeTierError } from "../core/errors.ts";
import type { Manifest } from "../registry/manifest.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";

/** Of one version, in one request. */
export interface InferenceMetrics {
  /** A tier was asked, or left out. */
  readonly recordTierUsage: (use: TierUsage) => void;
  /** Inputs that a tier's answer was given for, and how sure it was where it says so. */
  readonly recordAnswers: (
    answers: readonly (Pick<CascadeOutcome, "tier" | "degradedBy"> & {
      readonly confidence?: number;
    })[],
  ) => void;
  readonly recordCacheResult: (result: CacheStatus | "held") => void;
  /** One tier alone, over so many inputs. */
  readonly measureTier: <Answer>(
    tier: string,
    inputs: number,
    run: () => Promise<Answer>,
  ) => Promise<Answer>;
}

export function createInferenceMetrics(
  metrics: EdgeMetrics,
  { model, version, deadlineMs }: Pick<Manifest, "model" | "version" | "deadlineMs">,
): InferenceMetrics {
  const of = { model, version: String(version) };

  function used({ tier, inputs, error }: TierUsage): void {
    if (inputs > 0) metrics.count("edgetier_tier_inputs_total", { ...of, tier }, inputs);
    if (error !== undefined) metrics.count("edgetier_tier_failures_total", { ...of, tier, error });
  }

  function answered(answers: Parameters<InferenceMetrics["recordAnswers"]>[0]): void {
    for (const { tier, confidence, degradedBy = "" } of answers) {
      metrics.count("edgetier_answers_total", { ...of, tier, degraded_by: degradedBy });
      if (confidence !== undefined)
        metrics.observe("edgetier_confidence", { ...of, tier }, confidence);
    }
    metrics.setGauge("edgetier_deadline_seconds", { model }, deadlineMs / 1_000);
  }

  return {
    recordTierUsage: used,
    recordAnswers: answered,
    recordCacheResult: (result) => metrics.count("edgetier_cache_results_total", { model, result }),
    async measureTier(tier, inputs, run) {
      try {
        const answer = await run();
        used({ tier, inputs });
        return answer;
      } catch (error) {
        used({ tier, inputs, error: asEdgeTierError(error).code });
        throw error;
      }
    },
  };
}
