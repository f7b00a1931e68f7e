// What can be done about a limit that a deployment exceeds: only what would change this very deployment.

import type { DeploymentConfig, DeploymentLimits } from "./deployment-config.ts";
import type { DeploymentMeasurements } from "./doctor-measurements.ts";
import type { EngineReport } from "./engine/engine-report.ts";

interface RemedyContext {
  readonly config: DeploymentConfig;
  readonly engine: EngineReport["engine"];
}

/** @returns one sentence */
export function suggestRemedies(
  name: keyof DeploymentLimits,
  { upload, memory, graphs }: DeploymentMeasurements,
  { config, engine }: RemedyContext,
): string {
  const bundledCount = graphs.filter(({ how }) => how === "bundled").length;
  const fewerBundled = remedyIf(
    bundledCount > 0,
    `bundle fewer models: lower edgetier.bundledMemoryBytes in package.json (now ${config.bundledMemoryBytes}; ${bundledCount} bundled, ${upload.data.bytes} bytes of data), those beyond it are read from the store`,
  );
  const cutTheEngine = remedyIf(
    engine.kind === "full",
    config.engine === "full"
      ? 'set edgetier.engine to "cut" in package.json'
      : `have the engine cut; it is whole because ${engine.kind === "full" ? engine.reason : ""}`,
  );
  const noFallback = remedyIf(
    upload.fallback !== undefined,
    `set edgetier.fallbackEngine to "never" in package.json: the full engine beside the cut one takes ${upload.fallback?.bytes} bytes`,
  );
  const fewerAtTheEdge = 'let a region serve a large tier: "place": "region" in its model.json';
  const raise = `raise edgetier.limits.${name} if the platform allows more`;

  const remedies: Record<keyof DeploymentLimits, readonly (string | undefined)[]> = {
    workerBytes: [cutTheEngine, noFallback, fewerBundled, raise],
    scriptGzipBytes: [
      "find what takes the room with `npx wrangler deploy --dry-run --outdir dist/upload --metafile` and import less in functions/edge/main.ts",
      raise,
    ],
    engineGzipBytes: [
      cutTheEngine,
      remedyIf(
        engine.kind === "cut",
        `lower edgetier.engineGzipBytes in package.json (now ${config.engineGzipBytes}): room that the profiles leave goes to functions that might be needed`,
      ),
      remedyIf(
        engine.kind === "cut" && config.keepFunctions.length > 0,
        `keep fewer than the ${config.keepFunctions.length} functions of edgetier.keepFunctions`,
      ),
      remedyIf(engine.kind === "cut", fewerAtTheEdge),
      raise,
    ],
    startupCpuMs: [
      remedyIf(
        bundledCount > 0 && config.warmUpRuns > 0,
        `lower edgetier.warmUpRuns in package.json (now ${config.warmUpRuns})`,
      ),
      fewerBundled,
      cutTheEngine,
      noFallback,
      raise,
    ],
    isolateBytes: [
      fewerBundled,
      `lower edgetier.sessionBudgetBytes in package.json (now ${config.sessionBudgetBytes}; sessions took ${Math.max(memory.cold.wasmBytes, memory.steady.wasmBytes)} bytes), or EDGETIER_L1_MAX_BYTES or EDGETIER_MAX_INPUTS in wrangler.toml`,
      fewerAtTheEdge,
      raise,
    ],
  };
  return joinRemedies(remedies[name].filter((one) => one !== undefined));
}

const remedyIf = (applies: boolean, remedy: string): string | undefined =>
  applies ? remedy : undefined;

function joinRemedies(remedies: readonly string[]): string {
  const text =
    remedies.length === 1 ? (remedies[0] ?? "") : `Any of these helps: ${remedies.join("; ")}`;
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
