// Shared context of the region benchmark's parts: a store with the models, measurement settings, and results.
import type { S3Options } from "../../../src/registry/s3-config.ts";
import type { TrialSettings, Row } from "./compare-cases.ts";
import type { Target } from "./target.ts";

export interface BenchContext {
  readonly store: S3Options;
  readonly trialSettings: TrialSettings;
}

export interface PartResult {
  readonly rows: readonly Row[];
  readonly figures: Readonly<Record<string, number>>;
  readonly notes?: readonly string[];
  readonly otherVersions?: Readonly<Record<string, string>>;
}

/** Stops every added target, even if `body` fails. */
export async function withTargets<Result>(
  body: (add: (starting: Promise<Target>) => Promise<Target>) => Promise<Result>,
): Promise<Result> {
  const started: Target[] = [];
  try {
    return await body(async (starting) => {
      const target = await starting;
      started.push(target);
      return target;
    });
  } finally {
    await Promise.allSettled(started.map((target) => target.stop()));
  }
}
