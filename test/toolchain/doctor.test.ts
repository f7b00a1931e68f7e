// Diagnosis of a deployment: each limit, at it and above it, and remedies that fit the deployment.
import { describe, expect, it } from "vitest";
import {
  type DeploymentConfig,
  deploymentLimitsSchema,
} from "../../src/toolchain/deployment-config.ts";
import type {
  MeasuredGraph,
  DeploymentMeasurements,
} from "../../src/toolchain/doctor-measurements.ts";
import { type CheckName, diagnose, limitErrors, NOT_MEASURED } from "../../src/toolchain/doctor.ts";
import type { EngineReport } from "../../src/toolchain/engine/engine-report.ts";

const limits = deploymentLimitsSchema.parse({
  workerBytes: 1000,
  scriptGzipBytes: 100,
  engineGzipBytes: 200,
  startupCpuMs: 300,
  isolateBytes: 5000,
});
const config: DeploymentConfig = {
  engine: "stripped",
  fallbackEngine: "auto",
  engineGzipBytes: 150,
  bundledMemoryBytes: 4000,
  bundledArtifactBytes: 100,
  sessionBudgetBytes: 4500,
  imageMemoryBytes: 700,
  warmUpRuns: 2,
  keepFunctions: [],
  limits,
};
const engineSize = { sha256: "ab", bytes: 400, gzipBytes: 200 };
const strippedEngine: EngineReport["engine"] = {
  kind: "cut",
  source: "cd",
  ...engineSize,
  functions: "",
  functionCount: 3,
};
const fullEngine: EngineReport["engine"] = {
  kind: "full",
  source: "cd",
  ...engineSize,
  reason: "the-reason",
};
const bundledGraph: MeasuredGraph = {
  model: "a",
  tier: "edge",
  sha256: "01",
  status: "bundled",
  how: "bundled",
  memoryBytes: 1500,
  measuredInputs: 9,
};

const coldMemory = { heapBytes: 600, bufferBytes: 400, wasmBytes: 2000 };

/** Measurements exactly at each limit. */
const atLimits: DeploymentMeasurements = {
  upload: {
    script: { bytes: 300, gzipBytes: 100 },
    engine: { bytes: 400, gzipBytes: 200 },
    fallback: undefined,
    data: { bytes: 300, gzipBytes: 250 },
    totalBytes: 1000,
  },
  startupCpuMs: 300,
  memory: {
    cold: coldMemory,
    steady: { heapBytes: 1000, bufferBytes: 900, wasmBytes: 3100 },
    processBytes: 90_000,
  },
  graphs: [bundledGraph],
};

/** Measurements slightly above one limit. */
const aboveLimit: Readonly<
  Record<
    "scriptGzipBytes" | "engineGzipBytes" | "workerBytes" | "startupCpuMs" | "isolateBytes",
    DeploymentMeasurements
  >
> = {
  scriptGzipBytes: {
    ...atLimits,
    upload: { ...atLimits.upload, script: { bytes: 300, gzipBytes: 101 } },
  },
  engineGzipBytes: {
    ...atLimits,
    upload: { ...atLimits.upload, engine: { bytes: 400, gzipBytes: 201 } },
  },
  workerBytes: { ...atLimits, upload: { ...atLimits.upload, totalBytes: 1001 } },
  startupCpuMs: { ...atLimits, startupCpuMs: 300.5 },
  isolateBytes: {
    ...atLimits,
    memory: { ...atLimits.memory, steady: { heapBytes: 1000, bufferBytes: 901, wasmBytes: 3100 } },
  },
};

const diagnoseWith = (
  measurements: DeploymentMeasurements,
  engine: EngineReport["engine"] = strippedEngine,
  changes: Partial<DeploymentConfig> = {},
) => diagnose(measurements, { config: { ...config, ...changes }, limits, engine });
const findCheck = (name: CheckName, ...diagnosed: Parameters<typeof diagnoseWith>) =>
  diagnoseWith(...diagnosed).checks.find((check) => check.name === name);
/** Configuration keys that a check's remedy names, in its order. */
const findRemedyKeys = (name: CheckName, ...diagnosed: Parameters<typeof diagnoseWith>) =>
  [...(findCheck(name, ...diagnosed)?.remedy ?? "").matchAll(/edgetier\.([\w.]+\w)/g)].map(
    ([, key]) => key,
  );

describe("limits", () => {
  it("accept values that are equal to them", () => {
    const diagnosis = diagnoseWith(atLimits);
    expect(diagnosis).toMatchObject({ ok: true, graphs: [bundledGraph] });
    expect(diagnosis.checks.every(({ ok, remedy }) => ok && remedy === undefined)).toBe(true);
    expect(diagnosis.checks.find(({ name }) => name === "startupCpuMs")).toEqual({
      name: "startupCpuMs",
      measured: 300,
      limit: 300,
      unit: "ms",
      ok: true,
    });
    expect(diagnosis.checks.find(({ name }) => name === "steadyBytes")).toEqual({
      name: "steadyBytes",
      measured: 5000,
      limit: null,
      unit: "bytes",
      ok: true,
    });
    expect(limitErrors(diagnosis)).toEqual([]);
  });

  it.each(Object.entries(aboveLimit))(
    "report a slight excess of %s alone",
    (name, measurements) => {
      const diagnosis = diagnoseWith(measurements);
      expect(diagnosis.ok).toBe(false);
      expect(diagnosis.checks.filter(({ ok }) => !ok).map((check) => check.name)).toEqual([name]);
      expect(limitErrors(diagnosis)).toMatchObject([
        { code: "limit_exceeded", facts: { limit: limits[name as keyof typeof aboveLimit] } },
      ]);
      expect(findRemedyKeys(name as CheckName, measurements).at(-1)).toBe(`limits.${name}`);
    },
  );

  it("are all reported together, with value and limit", () => {
    const upload = { ...atLimits.upload, totalBytes: 2000, script: { bytes: 300, gzipBytes: 150 } };
    expect(
      limitErrors(diagnoseWith({ ...atLimits, upload, startupCpuMs: 301 })).map(
        ({ facts }) => facts,
      ),
    ).toEqual([
      { measured: 150, limit: 100, unit: "bytes" },
      { measured: 2000, limit: 1000, unit: "bytes" },
      { measured: 301, limit: 300, unit: "ms" },
    ]);
  });
});

describe("limits of memory", () => {
  it.each(["heapBytes", "bufferBytes", "wasmBytes"] as const)(
    "apply to %s after a cold start",
    (part) => {
      const cold = { ...coldMemory, [part]: coldMemory[part] + 2001 };
      const { checks } = diagnoseWith({ ...atLimits, memory: { ...atLimits.memory, cold } });
      expect(checks.filter(({ ok }) => !ok)).toMatchObject([
        { name: "isolateBytes", measured: 5001 },
      ]);
    },
  );

  it("do not apply to the process, whose memory some platforms do not report", () => {
    const checkProcess = (processBytes: number | undefined) =>
      findCheck("processBytes", { ...atLimits, memory: { ...atLimits.memory, processBytes } });
    expect(checkProcess(1e12)).toMatchObject({ measured: 1e12, limit: null, ok: true });
    expect(checkProcess(undefined)).toMatchObject({
      measured: null,
      limit: null,
      ok: true,
      note: NOT_MEASURED,
    });
  });
});

describe("memory restored at start", () => {
  const measureBundled = (graphs: readonly MeasuredGraph[]) =>
    findCheck("bundledMemoryBytes", { ...atLimits, graphs })?.measured;

  it("counts bundled sessions only", () => {
    expect(measureBundled([])).toBe(0);
    expect(
      measureBundled([
        bundledGraph,
        { ...bundledGraph, sha256: "02", memoryBytes: 20 },
        { ...bundledGraph, sha256: "03", status: "snapshot", how: "snapshot" },
        {
          ...bundledGraph,
          sha256: "04",
          status: "unsupported",
          how: "not",
          reason: "why",
          memoryBytes: null,
        },
      ]),
    ).toBe(1520);
  });

  it("counts a graph of two tiers once", () => {
    expect(measureBundled([bundledGraph, { ...bundledGraph, model: "b" }])).toBe(1500);
  });
});

describe("remedies", () => {
  it("for start-up name warm-up runs, if there are any, and bundled models", () => {
    expect(findRemedyKeys("startupCpuMs", aboveLimit.startupCpuMs)).toEqual([
      "warmUpRuns",
      "bundledMemoryBytes",
      "limits.startupCpuMs",
    ]);
    expect(
      findRemedyKeys("startupCpuMs", aboveLimit.startupCpuMs, strippedEngine, { warmUpRuns: 0 }),
    ).toEqual(["bundledMemoryBytes", "limits.startupCpuMs"]);
    expect(findRemedyKeys("startupCpuMs", { ...aboveLimit.startupCpuMs, graphs: [] })).toEqual([
      "limits.startupCpuMs",
    ]);
  });

  it("for start-up state the present values", () => {
    const remedy = findCheck("startupCpuMs", aboveLimit.startupCpuMs)?.remedy;
    expect(remedy).toMatch(/warmUpRuns.*\b2\b.*bundledMemoryBytes.*\b4000\b.*\b1 bundled/);
  });
});

describe("remedies for the engine's size", () => {
  it("for a full engine are to strip it, or to fix the reason that it is full", () => {
    const { engineGzipBytes } = aboveLimit;
    expect(
      findRemedyKeys("engineGzipBytes", engineGzipBytes, fullEngine, { engine: "full" }),
    ).toEqual(["engine", "limits.engineGzipBytes"]);
    expect(findRemedyKeys("engineGzipBytes", engineGzipBytes, fullEngine)).toEqual([
      "limits.engineGzipBytes",
    ]);
    expect(findCheck("engineGzipBytes", engineGzipBytes, fullEngine)?.remedy).toContain(
      "the-reason",
    );
  });

  it("for a stripped engine name its size budget, and the functions that are kept", () => {
    const { engineGzipBytes } = aboveLimit;
    expect(findRemedyKeys("engineGzipBytes", engineGzipBytes)).toEqual([
      "engineGzipBytes",
      "limits.engineGzipBytes",
    ]);
    expect(findCheck("engineGzipBytes", engineGzipBytes)?.remedy).toMatch(
      /edgetier\.engineGzipBytes.*\b150\b/,
    );
    const keepFunctions = [1, 2];
    expect(
      findRemedyKeys("engineGzipBytes", engineGzipBytes, strippedEngine, { keepFunctions }),
    ).toEqual(["engineGzipBytes", "keepFunctions", "limits.engineGzipBytes"]);
    expect(
      findCheck("engineGzipBytes", engineGzipBytes, strippedEngine, { keepFunctions })?.remedy,
    ).toContain("2 functions");
  });
});

describe("remedies for bytes and memory", () => {
  it.each(["workerBytes", "startupCpuMs"] as const)(
    "for %s name the fallback engine, if there is one",
    (name) => {
      const measurements = aboveLimit[name];
      const upload = { ...measurements.upload, fallback: { bytes: 90, gzipBytes: 30 } };
      expect(findRemedyKeys(name, measurements)).not.toContain("fallbackEngine");
      expect(findRemedyKeys(name, { ...measurements, upload })).toContain("fallbackEngine");
    },
  );

  it("for memory name the budget of sessions, and no engine, because compiled code does not count", () => {
    const { isolateBytes } = aboveLimit;
    const upload = { ...atLimits.upload, fallback: { bytes: 90, gzipBytes: 30 } };
    expect(findCheck("isolateBytes", isolateBytes)?.remedy).toMatch(
      /edgetier\.sessionBudgetBytes.*\b4500\b.*\b3100 bytes/,
    );
    for (const engine of [strippedEngine, fullEngine])
      expect(
        findRemedyKeys("isolateBytes", { ...isolateBytes, upload }, engine, {
          engine: engine.kind === "full" ? "full" : "stripped",
        }),
      ).toEqual(["bundledMemoryBytes", "sessionBudgetBytes", "limits.isolateBytes"]);
    expect(
      findCheck("isolateBytes", { ...isolateBytes, upload }, fullEngine)?.remedy,
    ).not.toContain("the-reason");
  });
});
