// Diagnosis of a deployment: compares its measurements with its limits and adds remedies. Pure, without input or output.

import { type EdgeTierError } from "../core/errors.ts";
import type { DeploymentConfig, DeploymentLimits } from "./deployment-config.ts";
import type {
  MeasuredGraph,
  IsolateMemory,
  DeploymentMeasurements,
} from "./doctor-measurements.ts";
import { suggestRemedies } from "./doctor-remedies.ts";
import type { EngineReport } from "./engine/engine-report.ts";
import { toolchainErrors } from "./errors.ts";

/** Titles of the checks, in the order of the report. */
export const CHECK_TITLES = {
  scriptBytes: "script",
  scriptGzipBytes: "script, gzip",
  engineBytes: "engine",
  engineGzipBytes: "engine, gzip",
  fallbackBytes: "fallback engine",
  fallbackGzipBytes: "fallback engine, gzip",
  imageDecoderBytes: "image decoders",
  imageDecoderGzipBytes: "image decoders, gzip",
  dataBytes: "bundled data",
  workerBytes: "Worker, uncompressed",
  startupCpuMs: "start-up CPU",
  coldBytes: "isolate memory, after a cold start",
  steadyBytes: "isolate memory, steady state",
  isolateBytes: "isolate memory, peak",
  bundledMemoryBytes: "sessions restored at start",
  processBytes: "process, peak resident, above an empty Worker",
} as const satisfies Readonly<Record<keyof DeploymentLimits, string>> &
  Readonly<Record<string, string>>;
export type CheckName = keyof typeof CHECK_TITLES;

export interface LimitCheck {
  readonly name: CheckName;
  /** Null if the platform cannot measure it. */
  readonly measured: number | null;
  /** Null for figures without a limit. */
  readonly limit: number | null;
  readonly unit: "bytes" | "ms";
  /** False only if a limit is exceeded. */
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

interface DiagnosedDeployment {
  readonly config: DeploymentConfig;
  /** Limits to check against; they may differ from those of `config`. */
  readonly limits: DeploymentLimits;
  readonly engine: EngineReport["engine"];
}

/** Compares measurements with limits. */
export function diagnose(
  measured: DeploymentMeasurements,
  deployment: DiagnosedDeployment,
): Diagnosis {
  const checkLimit = (name: keyof DeploymentLimits, value: number): LimitCheck => {
    const limit = deployment.limits[name];
    const ok = value <= limit;
    return {
      ...describeFigure(name, value),
      limit,
      ok,
      ...(ok ? {} : { remedy: suggestRemedies(name, measured, deployment) }),
    };
  };
  const checks = [
    ...checkUpload(measured, checkLimit),
    checkLimit("startupCpuMs", measured.startupCpuMs),
    ...checkMemory(measured, checkLimit),
  ];
  return { checks, graphs: measured.graphs, ok: checks.every(({ ok }) => ok) };
}

type CheckLimit = (name: keyof DeploymentLimits, value: number) => LimitCheck;

/** A figure without a limit. */
function describeFigure(name: CheckName, value: number | undefined): LimitCheck {
  const figure = {
    name,
    measured: value ?? null,
    limit: null,
    unit: name.endsWith("Ms") ? "ms" : "bytes",
    ok: true,
  } as const;
  return value === undefined ? { ...figure, note: NOT_MEASURED } : figure;
}

function checkUpload({ upload }: DeploymentMeasurements, checkLimit: CheckLimit): LimitCheck[] {
  const { script, engine, fallback, imageDecoders, data, totalBytes } = upload;
  return [
    describeFigure("scriptBytes", script.bytes),
    checkLimit("scriptGzipBytes", script.gzipBytes),
    describeFigure("engineBytes", engine.bytes),
    checkLimit("engineGzipBytes", engine.gzipBytes),
    ...(fallback === undefined
      ? []
      : [
          describeFigure("fallbackBytes", fallback.bytes),
          describeFigure("fallbackGzipBytes", fallback.gzipBytes),
        ]),
    ...(imageDecoders === undefined
      ? []
      : [
          describeFigure("imageDecoderBytes", imageDecoders.bytes),
          describeFigure("imageDecoderGzipBytes", imageDecoders.gzipBytes),
        ]),
    describeFigure("dataBytes", data.bytes),
    checkLimit("workerBytes", totalBytes),
  ];
}

function checkMemory(
  { memory, graphs }: DeploymentMeasurements,
  checkLimit: CheckLimit,
): LimitCheck[] {
  const coldBytes = totalIsolateBytes(memory.cold);
  const steadyBytes = totalIsolateBytes(memory.steady);
  return [
    describeFigure("coldBytes", coldBytes),
    describeFigure("steadyBytes", steadyBytes),
    checkLimit("isolateBytes", Math.max(coldBytes, steadyBytes)),
    describeFigure("bundledMemoryBytes", totalBundledBytes(graphs)),
    describeFigure("processBytes", memory.processBytes),
  ];
}

/** Tiers with the same graph share one bundled session, so each graph counts once. */
function totalBundledBytes(graphs: readonly MeasuredGraph[]): number {
  const bytesByGraph = new Map(
    graphs.flatMap(({ status, sha256, memoryBytes }) =>
      status === "bundled" ? [[sha256, memoryBytes ?? 0]] : [],
    ),
  );
  return [...bytesByGraph.values()].reduce((sum, bytes) => sum + bytes, 0);
}

const totalIsolateBytes = ({ heapBytes, bufferBytes, wasmBytes }: IsolateMemory): number =>
  heapBytes + bufferBytes + wasmBytes;

/** Returns one `limit_exceeded` error for each failed check. */
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
