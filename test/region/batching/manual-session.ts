// A session whose runs end when the test says so, and what happens to the works that are given to an executor.
import { vi } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import { EdgeTierError } from "../../../src/core/errors.ts";
import type { NamedTensors, TensorOf } from "../../../src/core/tensor.ts";
import type { BatchingConfig } from "../../../src/registry/serving-config.ts";
import { createExecutor } from "../../../src/region/server/batching/create-executor.ts";
import type { UnbatchableSession } from "../../../src/region/server/batching/batch-runner.ts";
import type { BatchRun, ExecutionRequest } from "../../../src/region/server/executor.ts";
import type { Session } from "../../../src/runtime/runtime.ts";

export const flushEventLoop = () => new Promise((resolve) => setImmediate(resolve));

export interface ManualRun {
  /** The rows it was given: their columns without the padding. */
  readonly rows: readonly (readonly number[])[];
  readonly shape: readonly number[];
  complete(outputs?: NamedTensors): void;
  fail(error: unknown): void;
}

/** Takes `x` FP32 [rows, columns], without 0s but for padding, and gives `sum` FP32 [rows, 1]. */
export function createManualSession(concurrency = 1) {
  const runs: ManualRun[] = [];
  const session: Session = {
    inputs: [{ name: "x", datatype: "FP32", shape: [-1, -1] }],
    outputs: [{ name: "sum", datatype: "FP32", shape: [-1, 1] }],
    memoryBytes: 0,
    concurrency,
    run({ x }) {
      if (x?.datatype !== "FP32") throw new Error("no x");
      const { promise, resolve, reject } = Promise.withResolvers<NamedTensors>();
      // Read again at its end: nobody may have written to its buffer meanwhile.
      runs.push({
        rows: rowsOf(x),
        shape: x.shape,
        fail: reject,
        complete: (outputs = { sum: sumOf(rowsOf(x)) }) => resolve(outputs),
      });
      return promise;
    },
    dispose: async () => {},
  };
  /** What is running now and later, by the first column of each row. */
  const firsts = () => runs.map((run) => run.rows.map((row) => row[0]));
  return { session, runs, firsts };
}

function rowsOf({ shape: [count = 0, width = 0], data }: TensorOf<"FP32">): number[][] {
  return Array.from({ length: count }, (_, row) =>
    [...data.subarray(row * width, (row + 1) * width)].filter((value) => value !== 0),
  );
}

const sumOf = (rows: readonly (readonly number[])[]) =>
  ({
    datatype: "FP32",
    shape: [rows.length, 1],
    data: Float32Array.from(rows, (row) => row.reduce((sum, value) => sum + value, 0)),
  }) as const;

/** Rows of one column for numbers, of several for lists, which must then be of one length. */
export function createTensors(rows: readonly (number | readonly number[])[]): NamedTensors {
  const all = rows.map((row) => (typeof row === "number" ? [row] : row));
  return {
    x: {
      datatype: "FP32",
      shape: [all.length, all[0]?.length ?? 0],
      data: Float32Array.from(all.flat()),
    },
  };
}

/** A model's batching configuration; without a mode, `fixed`. */
export interface ExecutorFixtureOptions extends BatchingConfig {
  /** Runs that the session makes at the same time. */
  readonly instances?: number;
}

export const TEST_TIER = { model: "sums", version: 1, tier: "heavy" };

/** An executor over one held session. `answers` fills with each work's sums, or its error's code. */
export function createExecutorFixture({ instances = 1, ...batching }: ExecutorFixtureOptions = {}) {
  const clock = new ManualClock();
  const held = createManualSession(instances);
  const reports: BatchRun[] = [];
  const onUnbatchable = vi.fn<(event: UnbatchableSession) => void>();
  const executor = createExecutor({
    clock,
    defaultBatching: { maxBatchRows: 8 },
    onRun: (run) => reports.push(run),
    onUnbatchable,
  });
  const answers: Record<string, unknown> = {};

  /** @param rows of the work; it goes by the first number in them */
  function send(
    rows: readonly (number | readonly number[])[],
    work: Partial<ExecutionRequest> = {},
  ): void {
    const name = String([rows[0]].flat()[0]);
    executor
      .execute({
        session: held.session,
        tier: TEST_TIER,
        batching,
        inputs: createTensors(rows),
        ...work,
      })
      .then(
        ({ sum }) => (answers[name] = sum?.datatype === "FP32" ? [...sum.data] : sum),
        (error: unknown) =>
          (answers[name] = error instanceof EdgeTierError ? error.code : String(error)),
      );
  }

  /** Ends the run that was started last. */
  async function endRun(): Promise<void> {
    held.runs.at(-1)?.complete();
    await flushEventLoop();
  }

  /** Of the runs that are over. */
  const reasons = () => reports.map(({ reason, rows }) => `${reason} ${rows}`);
  return { ...held, clock, executor, reports, reasons, onUnbatchable, answers, send, endRun };
}
