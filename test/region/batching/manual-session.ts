// Manual session: its runs end when the test ends them. The executor fixture records the result of each request.
import { vi } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import { EdgeTierError } from "../../../src/core/errors.ts";
import type { NamedTensors, TensorOf } from "../../../src/core/tensor.ts";
import type { UnbatchableSession } from "../../../src/region/server/batching/batch-runner.ts";
import { createExecutor } from "../../../src/region/server/batching/create-executor.ts";
import type { BatchRun, ExecutionRequest } from "../../../src/region/server/executor.ts";
import type { BatchingConfig } from "../../../src/registry/serving-config.ts";
import type { Session } from "../../../src/runtime/runtime.ts";

export const flushEventLoop = () => new Promise((resolve) => setImmediate(resolve));

export interface ManualRun {
  /** Input rows of the run, without their padding. */
  readonly rows: readonly (readonly number[])[];
  readonly shape: readonly number[];
  complete(outputs?: NamedTensors): void;
  fail(error: unknown): void;
}

/** Creates a session from `x` FP32 [rows, columns], in which 0 is padding, to `sum` FP32 [rows, 1]. */
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
      // The rows are read again at the end, which shows whether another run has overwritten the buffer.
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
  /** First column of each row, for each run so far. */
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

/** Makes a row of one column from a number, and of several columns from a list; all rows need the same length. */
export function createTensors(rows: readonly (number | readonly number[])[]): NamedTensors {
  const lists = rows.map((row) => (typeof row === "number" ? [row] : row));
  return {
    x: {
      datatype: "FP32",
      shape: [lists.length, lists[0]?.length ?? 0],
      data: Float32Array.from(lists.flat()),
    },
  };
}

/** Batching configuration of the model; the default mode is `fixed`. */
export interface ExecutorFixtureOptions extends BatchingConfig {
  /** Maximum number of concurrent runs of the session. */
  readonly instances?: number;
}

export const TEST_TIER = { model: "sums", version: 1, tier: "heavy" };

/** Creates an executor over a manual session; `answers` collects the sums of each request, or its error code. */
export function createExecutorFixture({ instances = 1, ...batching }: ExecutorFixtureOptions = {}) {
  const clock = new ManualClock();
  const manualSession = createManualSession(instances);
  const reports: BatchRun[] = [];
  const onUnbatchable = vi.fn<(event: UnbatchableSession) => void>();
  const executor = createExecutor({
    clock,
    defaultBatching: { maxBatchRows: 8 },
    onRun: (run) => reports.push(run),
    onUnbatchable,
  });
  const answers: Record<string, unknown> = {};

  /** @param rows of the request; their first number is its key in `answers` */
  function send(
    rows: readonly (number | readonly number[])[],
    overrides: Partial<ExecutionRequest> = {},
  ): void {
    const name = String([rows[0]].flat()[0]);
    executor
      .execute({
        session: manualSession.session,
        tier: TEST_TIER,
        batching,
        inputs: createTensors(rows),
        ...overrides,
      })
      .then(
        ({ sum }) => (answers[name] = sum?.datatype === "FP32" ? [...sum.data] : sum),
        (error: unknown) =>
          (answers[name] = error instanceof EdgeTierError ? error.code : String(error)),
      );
  }

  /** Ends the run that started last. */
  async function endRun(): Promise<void> {
    manualSession.runs.at(-1)?.complete();
    await flushEventLoop();
  }

  /** Dispatch reason and row count of each finished run. */
  const reasons = () => reports.map(({ reason, rows }) => `${reason} ${rows}`);
  return {
    ...manualSession,
    clock,
    executor,
    reports,
    reasons,
    onUnbatchable,
    answers,
    send,
    endRun,
  };
}
