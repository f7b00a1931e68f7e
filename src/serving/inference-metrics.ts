// Inference metrics: records all metrics of a served request in one place.

import type { CacheStatus } from "../cache/cache-policy.ts";
import type { CascadeOutcome, TierUsage } from "../cascade/cascade.ts";
import { asEdgeTierError } from "../core/errors.ts";
import type { Manifest } from "../registry/manifest.ts";
import type { EdgeMetrics } from "../telemetry/metrics-recorder.ts";

/** Recorder for one version in one request. */
export interface InferenceMetrics {
  /** Records a call to a tier, or a skipped tier. */
  readonly recordTierUsage: (use: TierUsage) => void;
  /** Records the tier, confidence and degradation of each answered input. */
  readonly recordAnswers: (
    answers: readonly (Pick<CascadeOutcome, "tier" | "degradedBy"> & {
      readonly confidence?: number;
    })[],
  ) => void;
  readonly recordCacheResult: (result: CacheStatus | "held") => void;
  /** Runs one tier and records its usage. */
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
  const labels = { model, version: String(version) };

  function recordTierUsage({ tier, inputs, error }: TierUsage): void {
    if (inputs > 0) metrics.count("edgetier_tier_inputs_total", { ...labels, tier }, inputs);
    if (error !== undefined)
      metrics.count("edgetier_tier_failures_total", { ...labels, tier, error });
  }

  function recordAnswers(answers: Parameters<InferenceMetrics["recordAnswers"]>[0]): void {
    for (const { tier, confidence, degradedBy = "" } of answers) {
      metrics.count("edgetier_answers_total", { ...labels, tier, degraded_by: degradedBy });
      if (confidence !== undefined)
        metrics.observe("edgetier_confidence", { ...labels, tier }, confidence);
    }
    metrics.setGauge("edgetier_deadline_seconds", { model }, deadlineMs / 1_000);
  }

  return {
    recordTierUsage,
    recordAnswers,
    recordCacheResult: (result) => metrics.count("edgetier_cache_results_total", { model, result }),
    async measureTier(tier, inputs, run) {
      try {
        const answer = await run();
        recordTierUsage({ tier, inputs });
        return answer;
      } catch (error) {
        recordTierUsage({ tier, inputs, error: asEdgeTierError(error).code });
        throw error;
      }
    },
  };
}
