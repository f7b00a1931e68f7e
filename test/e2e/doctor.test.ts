// `edgetier doctor` on this project's own deployment: what it measures is plausible, and a limit that is exceeded fails.
import { existsSync } from "node:fs";
import { beforeAll, describe, expect, it } from "vitest";
import { measureIsolateMemory } from "../../src/cli/doctor/isolate-memory.ts";
import type { WorkerUpload } from "../../src/cli/local/upload.ts";
import { startInspectedEdge } from "../../src/cli/local/workerd-edge.ts";
import type { IsolateMemory } from "../../src/toolchain/doctor-measurements.ts";
import type { CheckName, Diagnosis } from "../../src/toolchain/doctor.ts";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";

const MiB = 1024 * 1024;
const TIMEOUT_MS = 180_000; // it may have to make the engine

const hasProc = existsSync("/proc/self/status");

let diagnosis: Diagnosis;
const check = (name: CheckName) => diagnosis.checks.find((one) => one.name === name);
const measured = (name: CheckName) => check(name)?.measured ?? Number.NaN;

beforeAll(async () => {
  const ran = await runEdgetier(["doctor", "--json"]);
  if (ran.code !== 0 || ran.stderr !== "") throw new Error(JSON.stringify(ran));
  diagnosis = JSON.parse(ran.stdout);
}, TIMEOUT_MS);

describe("doctor", () => {
  it("measures the upload and its start", () => {
    expect(diagnosis.ok).toBe(true);
    expect(measured("scriptGzipBytes")).toBeGreaterThan(50_000);
    expect(measured("scriptGzipBytes")).toBeLessThan(measured("scriptBytes"));
    expect(measured("engineGzipBytes")).toBeGreaterThan(50_000);
    expect(measured("workerBytes")).toBe(
      measured("scriptBytes") +
        measured("engineBytes") +
        measured("imageDecoderBytes") +
        measured("dataBytes"),
    );
    expect(measured("startupCpuMs")).toBeGreaterThan(1);
    expect(check("workerBytes")).toMatchObject({ limit: 64 * MiB, unit: "bytes", ok: true });
  });

  it("says how each edge tier starts, and what its session takes", () => {
    const intent = diagnosis.graphs.find(({ model }) => model === "intent");
    expect(intent).toMatchObject({
      tier: "edge-int8",
      status: "bundled",
      how: "bundled",
      memoryBytes: expect.any(Number),
    });
    expect(intent?.measuredInputs).toBeGreaterThan(300);
    expect(measured("bundledMemoryBytes")).toBeGreaterThanOrEqual(
      intent?.memoryBytes ?? Number.NaN,
    );
  });

  it("measures the isolate's memory", () => {
    expect(measured("coldBytes")).toBeGreaterThan(
      measured("bundledMemoryBytes") + measured("dataBytes"),
    );
    expect(measured("steadyBytes")).toBeGreaterThan(
      measured("bundledMemoryBytes") + measured("dataBytes"),
    );
    expect(measured("isolateBytes")).toBe(Math.max(measured("coldBytes"), measured("steadyBytes")));
    expect(check("isolateBytes")).toMatchObject({ limit: 128 * MiB, ok: true });
  });

  it.skipIf(!hasProc)("measures the process's memory (needs /proc)", () => {
    expect(measured("processBytes")).toBeGreaterThan(measured("bundledMemoryBytes"));
    expect(check("processBytes")).toMatchObject({ limit: null, ok: true });
  });

  it.skipIf(hasProc)(
    "says that the process's memory is not measured (needs a platform without /proc)",
    () => {
      expect(check("processBytes")).toMatchObject({
        measured: null,
        note: "not measured on this platform",
        ok: true,
      });
    },
  );
});

describe("limits of doctor", () => {
  it(
    "names value, limit and remedy of every limit that is exceeded, and fails",
    { timeout: TIMEOUT_MS },
    async () => {
      const ran = await runEdgetier([
        "doctor",
        "--limits",
        '{"engineGzipBytes": 1, "startupCpuMs": 1}',
      ]);
      expect(ran.code).toBe(1);
      expect(ran.stdout).toMatch(
        /check +measured +limit +ok\n[^]*engine, gzip +[\d.]+ KiB +0\.0 KiB +NO\n[^]*start-up CPU +\d+ ms +1 ms +NO/,
      );
      expect(ran.stdout).toMatch(/intent\/edge-int8 +bundled.* MiB +\d+/);
      expect(ran.stderr).toMatch(
        /^error: engine, gzip: \d+ bytes .*\b1\.\n {2}.*edgetier\.limits\.engineGzipBytes.*\nerror: start-up CPU: [\d.]+ ms .*\b1\.\n {2}.*edgetier\.warmUpRuns/,
      );
    },
  );

  it.each([
    ["{", "--limits"],
    ["[1]", "--limits"],
    ['{"engine": 1, "isolateBytes": -1}', "isolateBytes"],
  ])("rejects the limits %s and names %s", async (limits, value) => {
    expect(await runFailingEdgetier(["doctor", "--limits", limits])).toMatchObject({
      exitCode: 2,
      stdout: "",
      code: "usage",
      detail: expect.stringContaining(value),
    });
  });
});

describe("an isolate's memory", () => {
  const worker = (script: string): WorkerUpload => ({
    modules: [
      {
        name: "main.js",
        kind: "script",
        bytes: new TextEncoder().encode(
          `${script}\nexport default { fetch: () => new Response() };`,
        ),
      },
    ],
    variables: {},
    compatibilityDate: "2026-10-01",
    compatibilityFlags: [],
  });

  async function memoryOf(script: string): Promise<IsolateMemory> {
    const edge = await startInspectedEdge(worker(script), {});
    try {
      return await measureIsolateMemory(edge.inspectorUrl, AbortSignal.timeout(TIMEOUT_MS));
    } finally {
      await edge.stop();
    }
  }

  it("has each ArrayBuffer and each WebAssembly memory once, with what it has grown by", async () => {
    const empty = await memoryOf("");
    expect(empty.wasmBytes).toBe(0);
    expect(empty.heapBytes).toBeGreaterThan(100_000);
    const held = await memoryOf(`
      globalThis.buffer = new Uint8Array(${10 * MiB});
      globalThis.memories = [new WebAssembly.Memory({ initial: 16 }), new WebAssembly.Memory({ initial: 16, maximum: 64 })];
      memories[1].grow(32);`);
    expect(held.wasmBytes).toBe(4 * MiB);
    expect((held.bufferBytes - empty.bufferBytes) / MiB).toBeCloseTo(10, 1);
    expect(held.heapBytes).toBeLessThan(empty.heapBytes + MiB);
  });
});
