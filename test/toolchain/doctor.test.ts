// The doctor's judgement: each limit, at and over it, and remedies that fit the deployment.
import { describe, expect, it } from "vitest";
import {
  type DeploymentConfig,
  deploymentLimitsSchema,
} from "../../src/toolchain/deployment-config.ts";
import { type CheckName, diagnose, limitErrors } from "../../src/toolchain/doctor.ts";
import type {
  MeasuredGraph,
  DeploymentMeasurements,
} from "../../src/toolchain/doctor-measurements.ts";
import type { EngineReport } from "../../src/toolchain/engine/engine-report.ts";

const limits = deploymentLimitsSchema.parse({
  workerBytes: 1000,
  scriptGzipBytes: 100,
  engineGzipBytes: 200,
  startupCpuMs: 300,
  isolateBytes: 5000,
});
const config: DeploymentConfig = {
  engine: "cut",
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
const size = { sha256: "ab", bytes: 400, gzipBytes: 200 };
const cut: EngineReport["engine"] = {
  kind: "cut",
  source: "cd",
  ...size,
  functions: "",
  functionCount: 3,
};
const full: EngineReport["engine"] = {
  kind: "full",
  source: "cd",
  ...size,
  reason: "the cut engine did not pass its tests",
};
const bundled: MeasuredGraph = {
  model: "a",
  tier: "edge",
  sha256: "01",
  status: "bundled",
  how: "bundled",
  memoryBytes: 1500,
  measuredInputs: 9,
};

const cold = { heapBytes: 600, bufferBytes: 400, wasmBytes: 2000 };

/** Everything exactly at its limit. */
const measured: DeploymentMeasurements = {
  upload: {
    script: { bytes: 300, gzipBytes: 100 },
    engine: { bytes: 400, gzipBytes: 200 },
    fallback: undefined,
    data: { bytes: 300, gzipBytes: 250 },
    totalBytes: 1000,
  },
  startupCpuMs: 300,
  memory: {
    cold,
    steady: { heapBytes: 1000, bufferBytes: 900, wasmBytes: 3100 },
    processBytes: 90_000,
  },
  graphs: [bundled],
};

const over: Readonly<
  Record<
    "scriptGzipBytes" | "engineGzipBytes" | "workerBytes" | "startupCpuMs" | "isolateBytes",
    DeploymentMeasurements
  >
> = {
  scriptGzipBytes: {
    ...measured,
    upload: { ...measured.upload, script: { bytes: 300, gzipBytes: 101 } },
  },
  engineGzipBytes: {
    ...measured,
    upload: { ...measured.upload, engine: { bytes: 400, gzipBytes: 201 } },
  },
  workerBytes: { ...measured, upload: { ...measured.upload, totalBytes: 1001 } },
  startupCpuMs: { ...measured, startupCpuMs: 300.5 },
  isolateBytes: {
    ...measured,
    memory: { ...measured.memory, steady: { heapBytes: 1000, bufferBytes: 901, wasmBytes: 3100 } },
  },
};

const judge = (
  one: DeploymentMeasurements,
  engine: EngineReport["engine"] = cut,
  changes: Partial<DeploymentConfig> = {},
) => diagnose(one, { config: { ...config, ...changes }, limits, engine });
const remedyOf = (name: CheckName, ...facts: Parameters<typeof judge>) =>
  judge(...facts).checks.find((check) => check.name === name)?.remedy;

describe("limits", () => {
  it("are kept by what is exactly at them", () => {
    const diagnosis = judge(measured);
    expect(diagnosis).toMatchObject({ ok: true, graphs: [bundled] });
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

  it.each(Object.entries(over))("%s is exceeded by a little more, and only it", (name, one) => {
    const diagnosis = judge(one);
    expect(diagnosis.ok).toBe(false);
    expect(diagnosis.checks.filter(({ ok }) => !ok).map((check) => check.name)).toEqual([name]);
    const [problem, ...others] = limitErrors(diagnosis);
    expect(others).toEqual([]);
    expect(problem).toMatchObject({
      code: "limit_exceeded",
      facts: { limit: limits[name as keyof typeof over] },
    });
    expect(problem?.remedy).toContain(`raise edgetier.limits.${name} if the platform allows more`);
  });

  it("are all reported together, with value and limit", () => {
    const upload = { ...measured.upload, totalBytes: 2000, script: { bytes: 300, gzipBytes: 150 } };
    expect(
      limitErrors(judge({ ...measured, upload, startupCpuMs: 301 })).map(({ detail }) => detail),
    ).toEqual([
      "script, gzip: 150 bytes, and the limit is 100.",
      "Worker, uncompressed: 2000 bytes, and the limit is 1000.",
      "start-up CPU: 301 ms, and the limit is 300.",
    ]);
  });

  it.each(["heapBytes", "bufferBytes", "wasmBytes"] as const)(
    "of memory hold after a cold start, too, for %s",
    (part) => {
      const { checks } = judge({
        ...measured,
        memory: { ...measured.memory, cold: { ...cold, [part]: cold[part] + 2001 } },
      });
      expect(
        checks.flatMap(({ name, measured: value, ok }) => (ok ? [] : [[name, value]])),
      ).toEqual([["isolateBytes", 5001]]);
    },
  );

  it("do not apply to the process, which the platform may not tell of", () => {
    const processOf = (processBytes: number | undefined) =>
      judge({ ...measured, memory: { ...measured.memory, processBytes } }).checks.find(
        ({ name }) => name === "processBytes",
      );
    expect(processOf(1e12)).toMatchObject({ measured: 1e12, limit: null, ok: true });
    expect(processOf(undefined)).toMatchObject({
      measured: null,
      limit: null,
      ok: true,
      note: "not measured on this platform",
    });
  });
});

describe("what is restored at start", () => {
  const memoryOf = (graphs: readonly MeasuredGraph[]) =>
    judge({ ...measured, graphs }).checks.find(({ name }) => name === "bundledMemoryBytes")
      ?.measured;

  it("counts bundled sessions alone", () => {
    expect(memoryOf([])).toBe(0);
    expect(
      memoryOf([
        bundled,
        { ...bundled, sha256: "02", memoryBytes: 20 },
        { ...bundled, sha256: "03", status: "snapshot", how: "snapshot" },
        { ...bundled, sha256: "04", status: "unsupported", how: "not", reason: "why", memoryBytes: null },
      ]),
    ).toBe(1520);
  });

  it("counts a graph of two tiers once", () => {
    expect(memoryOf([bundled, { ...bundled, model: "b" }])).toBe(1500);
  });
});

describe("remedies", () => {
  it("for start-up: fewer warm-up runs, while there are any, and fewer bundled models", () => {
    expect(remedyOf("startupCpuMs", over.startupCpuMs)).toMatch(
      /warmUpRuns in package.json \(now 2\); .*bundledMemoryBytes in package.json \(now 4000; 1 bundled/,
    );
    expect(remedyOf("startupCpuMs", over.startupCpuMs, cut, { warmUpRuns: 0 })).not.toContain(
      "warmUpRuns",
    );
    expect(remedyOf("startupCpuMs", { ...over.startupCpuMs, graphs: [] })).toBe(
      "Raise edgetier.limits.startupCpuMs if the platform allows more.",
    );
  });

  it("for a whole engine: cut it, or what kept it from being cut", () => {
    expect(remedyOf("engineGzipBytes", over.engineGzipBytes, full, { engine: "full" })).toContain(
      'set edgetier.engine to "cut"',
    );
    expect(remedyOf("engineGzipBytes", over.engineGzipBytes, full)).toContain(
      "it is whole because the cut engine did not pass its tests",
    );
    expect(remedyOf("engineGzipBytes", over.engineGzipBytes)).toMatch(
      /edgetier\.engineGzipBytes in package.json \(now 150\)/,
    );
    expect(remedyOf("engineGzipBytes", over.engineGzipBytes)).not.toContain("keepFunctions");
    expect(
      remedyOf("engineGzipBytes", over.engineGzipBytes, cut, { keepFunctions: [1, 2] }),
    ).toContain("fewer than the 2 functions");
  });

  it("for bytes and start-up: no full engine beside the cut one, where there is one", () => {
    const fallback = { bytes: 90, gzipBytes: 30 };
    for (const name of ["workerBytes", "startupCpuMs"] as const) {
      expect(remedyOf(name, over[name])).not.toContain("fallbackEngine");
      expect(
        remedyOf(name, { ...over[name], upload: { ...over[name].upload, fallback } }),
      ).toContain('edgetier.fallbackEngine to "never"');
    }
  });

  it("for memory: a smaller budget of sessions; compiled code does not count", () => {
    expect(remedyOf("isolateBytes", over.isolateBytes)).toContain(
      "lower edgetier.sessionBudgetBytes in package.json (now 4500; sessions took 3100 bytes)",
    );
    expect(
      remedyOf(
        "isolateBytes",
        {
          ...over.isolateBytes,
          upload: { ...measured.upload, fallback: { bytes: 90, gzipBytes: 30 } },
        },
        full,
      ),
    ).not.toMatch(/fallbackEngine|engine cut/);
  });
});
