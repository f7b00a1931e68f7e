// Tests the rate and the bookkeeping of a precomputation with a fake clock; test/e2e/precompute.test.ts tests the command.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { BatchResult } from "../../src/cli/precompute/batch-predictor.ts";
import { type PrecomputeInput, readInputs } from "../../src/cli/precompute/inputs.ts";
import { openPrecomputeState } from "../../src/cli/precompute/progress-state.ts";
import { type PrecomputeOptions, runPrecompute } from "../../src/cli/precompute/run-precompute.ts";
import type { Clock } from "../../src/core/clock.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-precompute-"));
});
afterAll(async () => await rm(folder, { recursive: true }));

/** Clock that advances as soon as a timer is set. */
class AutoAdvanceClock implements Clock {
  nowMs = 0;
  now = () => this.nowMs;
  setTimer(callback: () => void, delayMs: number): () => void {
    this.nowMs += delayMs;
    callback();
    return () => {};
  }
}

const job = { model: "m", version: 1, inputsSha256: "0", count: 10 };
const lines = Array.from({ length: 10 }, (_, index) => ({
  line: index + 1,
  input: `text ${index}`,
}));
const allComputed = (inputs: readonly PrecomputeInput[]): BatchResult => ({
  kind: "answered",
  computed: inputs.length,
  degraded: [],
});

let path: string;
let count = 0;
beforeEach(() => {
  path = join(folder, `state-${++count}.json`);
});

async function run(
  predict: (inputs: readonly PrecomputeInput[]) => BatchResult,
  options: Partial<PrecomputeOptions> = {},
  jobNow = job,
) {
  const calls: number[] = [];
  const logged: string[] = [];
  const clock = new AutoAdvanceClock();
  const report = await runPrecompute({
    inputs: lines,
    state: await openPrecomputeState(path, jobNow),
    batchSize: 4,
    ratePerSecond: undefined,
    log: (line) => logged.push(line),
    clock,
    predictBatch: async (inputs) => {
      calls.push(inputs.length);
      clock.nowMs += 10;
      return predict(inputs);
    },
    ...options,
  });
  return { report, calls, logged, clock };
}

describe("a precomputation", () => {
  it("sends batch after batch, and counts cached answers", async () => {
    const { report, calls } = await run((inputs) => ({
      kind: "answered",
      computed: inputs.length - 1,
      degraded: [],
    }));
    expect(calls).toEqual([4, 4, 2]);
    expect(report).toEqual({
      asked: 10,
      cached: 3,
      computed: 7,
      failed: 0,
      hitShare: 0.3,
      failures: [],
    });
  });

  it("sends at most the given inputs a second", async () => {
    const { clock } = await run(allComputed, { ratePerSecond: 2 });
    expect(clock.nowMs).toBeGreaterThanOrEqual(4_000); // 8 inputs at 2 a second; nothing waits after the last batch
    expect(clock.nowMs).toBeLessThan(5_000);
  });

  it("waits for the retry-after of the edge, and retries the batch", async () => {
    let rejections = 2;
    const { report, calls, logged, clock } = await run((inputs) =>
      rejections-- > 0
        ? { kind: "retry-later", retryAfterMs: 7_000, code: "overloaded", detail: "Too much." }
        : allComputed(inputs),
    );
    expect(calls).toEqual([4, 4, 4, 4, 2]);
    expect(clock.nowMs).toBeGreaterThanOrEqual(14_000);
    expect(logged).toContainEqual(expect.stringMatching(/overloaded.*\b7 s\b/));
    expect(report).toMatchObject({ asked: 10, computed: 10, failed: 0 });
  });
});

describe("the progress of a precomputation", () => {
  it("stops after too many rejections, and the next run continues from there", async () => {
    let answered = 0;
    const flaky = (inputs: readonly PrecomputeInput[]): BatchResult =>
      answered++ === 0
        ? allComputed(inputs)
        : {
            kind: "retry-later",
            retryAfterMs: undefined,
            code: "edge_unreachable",
            detail: "Refused.",
          };
    await expect(run(flaky)).rejects.toMatchObject({
      code: "edge_unreachable",
      detail: expect.stringContaining("4 of 10"),
    });
    const { report, calls, logged } = await run(allComputed);
    expect(calls).toEqual([4, 2]);
    expect(logged[0]).toContain("4 of 10");
    expect(report).toMatchObject({ asked: 10, computed: 10 });
  });

  it("restarts for another version, for other inputs, and after its end", async () => {
    await run(allComputed);
    for (const other of [
      { ...job, version: 2 },
      { ...job, inputsSha256: "1" },
      { ...job, inputsSha256: "1" },
    ])
      expect((await run(allComputed, {}, other)).calls).toEqual([4, 4, 2]);
  });
});

describe("the record of a precomputation", () => {
  it("reports the line of a rejected input, and computes the other inputs", async () => {
    const { report } = await run((inputs) =>
      inputs.includes("text 5")
        ? { kind: "rejected", code: "empty_text", detail: "Input 1 is empty." }
        : allComputed(inputs),
    );
    expect(report).toMatchObject({
      asked: 10,
      computed: 9,
      failed: 1,
      failures: [{ line: 6, code: "empty_text" }],
    });
  });

  it("counts a degraded answer as failed, because no cache stores it", async () => {
    const { report } = await run((inputs) => ({
      kind: "answered",
      computed: inputs.length,
      degraded: inputs.flatMap((input, index) => (input === "text 9" ? [index] : [])),
    }));
    expect(report).toMatchObject({
      computed: 9,
      failed: 1,
      failures: [{ line: 10, code: "degraded" }],
    });
  });

  it("rejects an invalid state file", async () => {
    for (const content of ["", "{}", "[1", '{"model":"m"}']) {
      await writeFile(path, content);
      await expect(openPrecomputeState(path, job)).rejects.toMatchObject({
        code: "state_unreadable",
      });
    }
  });

  it("writes a complete state after each batch", async () => {
    const states: string[] = [];
    await run((inputs) => allComputed(inputs), {
      log: () => {},
      predictBatch: async (inputs) => (
        states.push(await readFile(path, "utf8").catch(() => "")),
        allComputed(inputs)
      ),
    });
    expect(states.map((state) => (state === "" ? 0 : JSON.parse(state).progress.asked))).toEqual([
      0, 4, 8,
    ]);
  });
});

describe("its inputs", () => {
  const read = async (text: string) => {
    const file = join(folder, "inputs.jsonl");
    await writeFile(file, text);
    return (await readInputs(file, "edgetier precompute")).lines;
  };

  it("are texts, rows with a text, and images, each once", async () => {
    expect(await read('"a"\n\n{"text":"b","label":"x"}\n{"b64":"aGk="}\n"a"\n')).toEqual([
      { line: 1, input: "a" },
      { line: 3, input: "b" },
      { line: 4, input: { b64: "aGk=" } },
    ]);
  });

  it.each([
    ["", "inputs.jsonl"],
    ['"a"\nnope', "line 2"],
    ["7", "line 1: value"],
  ])("are rejected as %j", async (text, problem) => {
    await expect(read(text)).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining(problem),
    });
  });
});
