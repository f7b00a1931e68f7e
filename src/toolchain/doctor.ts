// The doctor's judgement: measurements of a deployment against its limits, with remedies. No input or output.

import { toolchainErrors } from "./errors.ts";
import { type EdgeTierError } from "../core/errors.ts";
import type { DeploymentConfig, DeploymentLimits } from "./deployment-config.ts";
import type {
  MeasuredGraph,
  IsolateMemory,
  DeploymentMeasurements,
} from "./doctor-measurements.ts";
import { suggestRemedies } from "./doctor-remedies.ts";
import type { EngineReport } from "./engine/engine-report.ts";

/** In the order of the report. */
export const CHECK_TITLES = {
  scriptBytes: "script",
  scriptGzipBytes: "script, gzip",
  engineBytes: "engine",
  engineGzipBytes: "engine, gzip",
  fallbackBytes: "full engine beside it",
  fallbackGzipBytes: "full engine beside it, gzip",
  imageDecoderBytes: "image decoders",
  imageDecoderGzipBytes: "image decoders, gzip",
  dataBytes: "bundled data",
  workerBytes: "Worker, uncompressed",
  startupCpuMs: "start-up CPU",
  coldBytes: "isolate's memory, after a cold start",
  steadyBytes: "isolate's memory, steady state",
  isolateBytes: "isolate's memory, peak",
  bundledMemoryBytes: "sessions restored at start",
  processBytes: "process, peak resident, above an empty Worker",
} as const satisfies Readonly<Record<keyof DeploymentLimits, string>> &
  Readonly<Record<string, string>>;
export type CheckName = keyof typeof CHECK_TITLES;

export interface LimitCheck {
  readonly name: CheckName;
  /** Null where it was not measured. */
  readonly measured: number | null;
  /** Null where there is none. */
  readonly limit: number | null;
  readonly unit: "bytes" | "ms";
  /** False only for a limit that is exceeded. */
  readonly ok: boolean;
  readonly remedy?: string;
  readonly note?: string;
}

export interface Diagnosis {
  readonly checks: readonly LimitCheck[];
  readonly graphs: readonly MeasuredGraph[];
  readonly ok: boolean;
}

export const NOT_MEASURED = "not measured on this platform";

/** @param deployment.limits may differ from those of the configuration */
export function diagnose(
  measured: DeploymentMeasurements,
  deployment: {
    readonly config: DeploymentConfig;
    readonly limits: DeploymentLimits;
    readonly engine: EngineReport["engine"];
  },
): Diagnosis {
  const { upload, startupCpuMs, memory, graphs } = measured;
  const { limits } = deployment;
  const fact = (name: CheckName, value: number | undefined): LimitCheck => {
    const base = {
      name,
      measured: value ?? null,
      limit: null,
      unit: name.endsWith("Ms") ? "ms" : "bytes",
      ok: true,
    } as const;
    return value === undefined ? { ...base, note: NOT_MEASURED } : base;
  };
  const limited = (name: keyof DeploymentLimits, value: number): LimitCheck => {
    const ok = value <= limits[name];
    return {
      ...fact(name, value),
      limit: limits[name],
      ok,
      ...(ok ? {} : { remedy: suggestRemedies(name, measured, deployment) }),
    };
  };
  const bundled = new Map(
    graphs.flatMap(({ how, sha256, memoryBytes }) =>
      how === "bundled" ? [[sha256, memoryBytes ?? 0]] : [],
    ),
  );
  const checks = [
    fact("scriptBytes", upload.script.bytes),
    limited("scriptGzipBytes", upload.script.gzipBytes),
    fact("engineBytes", upload.engine.bytes),
    limited("engineGzipBytes", upload.engine.gzipBytes),
    ...(upload.fallback === undefined
      ? []
      : [
          fact("fallbackBytes", upload.fallback.bytes),
          fact("fallbackGzipBytes", upload.fallback.gzipBytes),
        ]),
    ...(upload.imageDecoders === undefined
      ? []
      : [
          fact("imageDecoderBytes", upload.imageDecoders.bytes),
          fact("imageDecoderGzipBytes", upload.imageDecoders.gzipBytes),
        ]),
    fact("dataBytes", upload.data.bytes),
    limited("workerBytes", upload.totalBytes),
    limited("startupCpuMs", startupCpuMs),
    fact("coldBytes", totalIsolateBytes(memory.cold)),
    fact("steadyBytes", totalIsolateBytes(memory.steady)),
    limited(
      "isolateBytes",
      Math.max(totalIsolateBytes(memory.cold), totalIsolateBytes(memory.steady)),
    ),
    fact(
      "bundledMemoryBytes",
      [...bundled.values()].reduce((sum, bytes) => sum + bytes, 0),
    ),
    fact("processBytes", memory.processBytes),
  ];
  return { checks, graphs, ok: checks.every(({ ok }) => ok) };
}

const totalIsolateBytes = ({ heapBytes, bufferBytes, wasmBytes }: IsolateMemory): number =>
  heapBytes + bufferBytes + wasmBytes;

/** One limit_exceeded for each check that failed. */
export function limitErrors({ checks }: Diagnosis): EdgeTierError[] {
  return checks.flatMap(({ name, measured, limit, unit, ok, remedy = "" }) =>
    ok
      ? []
      : [
          toolchainErrors.limitExceeded(
            CHECK_TITLES[name],
            measured ?? 0,
            limit ?? 0,
            unit,
            remedy,
          ),
        ],
  );
}
