// Suggests remedies for an exceeded deployment limit. Remedies that would not change this deployment are left out.

import type { DeploymentConfig, DeploymentLimits } from "./deployment-config.ts";
import type { DeploymentMeasurements } from "./doctor-measurements.ts";
import type { EngineReport } from "./engine/engine-report.ts";

interface RemedyContext {
  readonly config: DeploymentConfig;
  readonly engine: EngineReport["engine"];
}

/** @returns imperatives, in one sentence or as a list of alternatives */
export function suggestRemedies(
  name: keyof DeploymentLimits,
  { upload, memory, graphs }: DeploymentMeasurements,
  { config, engine }: RemedyContext,
): string {
  const bundledCount = graphs.filter(({ status }) => status === "bundled").length;
  const fewerBundled = remedyIf(
    bundledCount > 0,
    `lower edgetier.bundledMemoryBytes in package.json to bundle fewer models (now ${config.bundledMemoryBytes}; ${bundledCount} bundled, ${upload.data.bytes} bytes of data); the others are read from the store`,
  );
  const stripEngine = remedyIf(
    engine.kind === "full",
    config.engine === "full"
      ? 'set edgetier.engine to "stripped" in package.json'
      : `fix the cause of the full engine (${engine.kind === "full" ? engine.reason : ""}) so that it is stripped`,
  );
  const noFallback = remedyIf(
    upload.fallback !== undefined,
    `set edgetier.fallbackEngine to "never" in package.json to drop the full engine (${upload.fallback?.bytes} bytes)`,
  );
  const fewerEdgeTiers = 'move a large tier to a region with "place": "region" in its model.json';
  const raise = `raise edgetier.limits.${name} if the platform allows more`;

  const remedies: Record<keyof DeploymentLimits, readonly (string | undefined)[]> = {
    workerBytes: [stripEngine, noFallback, fewerBundled, raise],
    scriptGzipBytes: [
      "list the largest modules with `npx wrangler deploy --dry-run --outdir dist/upload --metafile` and import fewer of them in functions/edge/main.ts",
      raise,
    ],
    engineGzipBytes: [
      stripEngine,
      remedyIf(
        engine.kind === "cut",
        `lower edgetier.engineGzipBytes in package.json (now ${config.engineGzipBytes}) to keep fewer functions beyond the profiled ones`,
      ),
      remedyIf(
        engine.kind === "cut" && config.keepFunctions.length > 0,
        `remove some of the ${config.keepFunctions.length} functions from edgetier.keepFunctions`,
      ),
      remedyIf(engine.kind === "cut", fewerEdgeTiers),
      raise,
    ],
    startupCpuMs: [
      remedyIf(
        bundledCount > 0 && config.warmUpRuns > 0,
        `lower edgetier.warmUpRuns in package.json (now ${config.warmUpRuns})`,
      ),
      fewerBundled,
      stripEngine,
      noFallback,
      raise,
    ],
    isolateBytes: [
      fewerBundled,
      `lower edgetier.sessionBudgetBytes in package.json (now ${config.sessionBudgetBytes}; sessions used ${Math.max(memory.cold.wasmBytes, memory.steady.wasmBytes)} bytes), or EDGETIER_L1_MAX_BYTES or EDGETIER_MAX_INPUTS in wrangler.toml`,
      fewerEdgeTiers,
      raise,
    ],
  };
  return joinRemedies(remedies[name].filter((remedy) => remedy !== undefined));
}

const remedyIf = (applies: boolean, remedy: string): string | undefined =>
  applies ? remedy : undefined;

function joinRemedies(remedies: readonly string[]): string {
  const text =
    remedies.length === 1 ? (remedies[0] ?? "") : `Do any of these: ${remedies.join("; or ")}`;
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
