// Padding: requests of different lengths share a run, with the outputs of single runs.
// One file, because all cases specify the same rule for different sources of tensors.
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import type { NamedTensors, Tensor } from "../../../src/core/tensor.ts";
import { createExecutor } from "../../../src/region/server/batching/create-executor.ts";
import type { BatchRun, ExecutionRequest } from "../../../src/region/server/executor.ts";
import type { BatchingConfig } from "../../../src/registry/serving-config.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import type { Session } from "../../../src/runtime/runtime.ts";
import { getTask } from "../../../src/tasks/tasks.ts";
import { json, tinyTokenizer } from "../../fixtures/tiny-tokenizer.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { readFixture } from "../region-fixture.ts";
import { createExecutorFixture, TEST_TIER } from "./manual-session.ts";

const padding = { axis: 1, value: 0 };

describe("requests that the region encoded", () => {
  it("share a run only if they can be padded", async () => {
    const { send, runs, endRun, answers } = createExecutorFixture();
    send([1]);
    send([[2, 2]], { padding });
    send(
      [
        [3, 3, 3],
        [3, 3, 3],
      ],
      { padding },
    );
    send([[4, 4]]);
    send([5]);
    for (let run = 0; run < 4; run++) await endRun();
    expect(runs.map((run) => run.shape)).toEqual([
      [1, 1],
      [3, 3],
      [1, 2],
      [1, 1],
    ]);
    expect(answers).toEqual({ 1: [1], 2: [4], 3: [9, 9], 4: [8], 5: [5] });
  });

  it("are padded to the length of their bucket, even in single runs", async () => {
    const { send, runs, endRun, answers } = createExecutorFixture({
      padding: { axis: 7, value: 9, buckets: [2, 4] },
    });
    send([1], { padding });
    send([2], { padding });
    send([[3, 3]], { padding });
    send([[4, 4, 4]], { padding });
    send([[5, 5, 5]], { padding });
    send([[6, 6, 6, 6, 6]], { padding });
    send([[7, 7, 7, 7, 7, 7]], { padding });
    for (let run = 0; run < 5; run++) await endRun();
    expect(runs.map((run) => run.shape)).toEqual([
      [1, 2],
      [2, 2],
      [2, 4],
      [1, 5],
      [1, 6],
    ]);
    expect(answers).toMatchObject({ 1: [1], 2: [2], 3: [6], 4: [12], 5: [15], 6: [30], 7: [42] });
  });
});

describe("padding of encoded requests", () => {
  it("is not used if an output has another variable dimension", async () => {
    const { send, runs, endRun, session } = createExecutorFixture();
    Object.assign(session, { outputs: [{ name: "sum", datatype: "FP32", shape: [-1, -1, -1] }] });
    send([1]);
    send([2], { padding });
    send([[3, 3]], { padding });
    for (let run = 0; run < 3; run++) await endRun();
    expect(runs.map((run) => run.shape)).toEqual([
      [1, 1],
      [1, 1],
      [1, 2],
    ]);
  });

  it("does not mix requests with different padding values", async () => {
    const { send, runs, endRun } = createExecutorFixture({ padding: { axis: 1, value: 9 } });
    send([1]);
    send([2]);
    send([[3, 3]], { padding });
    for (let run = 0; run < 3; run++) await endRun();
    expect(runs.map((run) => run.shape)).toEqual([
      [1, 1],
      [1, 1],
      [1, 2],
    ]);
  });

  it("never shows the old content of reused buffers", async () => {
    const { send, endRun, answers } = createExecutorFixture();
    send([1]);
    send([[2, 2, 2]], { padding });
    send([[3, 3, 3]], { padding });
    await endRun();
    send([4], { padding });
    send([[5, 5, 5]], { padding });
    await endRun();
    await endRun();
    expect(answers).toMatchObject({ 2: [6], 3: [9], 4: [4], 5: [15] });
  });
});

/** Creates a session that records its inputs and returns no outputs. */
function createRecordingSession(inputs: Session["inputs"]) {
  const recorded: NamedTensors[] = [];
  const copyEntry = ([name, tensor]: [string, Tensor]) => [
    name,
    { ...tensor, data: tensor.data.slice() } as Tensor,
  ];
  const run = async (tensors: NamedTensors) => {
    recorded.push(Object.fromEntries(Object.entries(tensors).map(copyEntry)));
    return {};
  };
  const session: Session = { inputs, outputs: [], memoryBytes: 0, run, dispose: async () => {} };
  return { session, recorded };
}

const declaredPadding: BatchingConfig = { padding: { axis: 1, value: -7 } };

describe("tensors that a client sends", () => {
  it("are padded in blocks, as the model declares", async () => {
    const { session, recorded } = createRecordingSession([
      { name: "x", datatype: "INT64", shape: [-1, -1, 2] },
    ]);
    const executor = createExecutor({ defaultBatching: declaredPadding });
    const createColumns = (columns: number, value: bigint): NamedTensors => ({
      x: {
        datatype: "INT64",
        shape: [1, columns, 2],
        data: new BigInt64Array(columns * 2).fill(value),
      },
    });
    await Promise.all(
      [createColumns(1, 1n), createColumns(1, 2n), createColumns(2, 3n)].map((inputs) =>
        executor.execute({ session, tier: TEST_TIER, inputs }),
      ),
    );
    expect(recorded[1]).toEqual({
      x: {
        datatype: "INT64",
        shape: [2, 2, 2],
        data: BigInt64Array.of(2n, 2n, -7n, -7n, 3n, 3n, 3n, 3n),
      },
    });
  });
});

describe("tensors that cannot be padded", () => {
  it("stay unchanged if the inputs of one request differ in length", async () => {
    const { session, recorded } = createRecordingSession([
      { name: "x", datatype: "FP32", shape: [-1, -1] },
      { name: "y", datatype: "FP32", shape: [-1, -1] },
    ]);
    const executor = createExecutor({ defaultBatching: declaredPadding });
    const createRow = (columns: number): Tensor => ({
      datatype: "FP32",
      shape: [1, columns],
      data: new Float32Array(columns),
    });
    const requests = [
      { x: createRow(1), y: createRow(2) },
      { x: createRow(1), y: createRow(2) },
      { x: createRow(2), y: createRow(3) },
    ];
    await Promise.all(
      requests.map((inputs) => executor.execute({ session, tier: TEST_TIER, inputs })),
    );
    expect(recorded.map(({ x, y }) => ({ x: x?.shape, y: y?.shape }))).toEqual([
      { x: [1, 1], y: [1, 2] },
      { x: [1, 1], y: [1, 2] },
      { x: [1, 2], y: [1, 3] },
    ]);
  });

  it("stay unchanged if their datatype cannot hold the padding", async () => {
    const { session, recorded } = createRecordingSession([
      { name: "x", datatype: "FP16", shape: [-1, -1] },
    ]);
    const executor = createExecutor({ defaultBatching: declaredPadding });
    const createRow = (columns: number): Tensor => ({
      datatype: "FP16",
      shape: [1, columns],
      data: new Uint16Array(columns),
    });
    await Promise.all(
      [1, 1, 2].map((columns) =>
        executor.execute({ session, tier: TEST_TIER, inputs: { x: createRow(columns) } }),
      ),
    );
    expect(recorded.map(({ x }) => x?.shape)).toEqual([
      [1, 1],
      [1, 1],
      [1, 2],
    ]);
  });
});

const sessions = new Map<string, Session>();
async function openSession(name: string): Promise<Session> {
  const opened = sessions.get(name);
  if (opened !== undefined) return opened;
  const model = await readFixture(`${name}.onnx`);
  const session = await createNativeRuntime({ intraOpThreads: 1 }).createSession(model);
  sessions.set(name, session);
  return session;
}
afterAll(() => Promise.all([...sessions.values()].map((session) => session.dispose())));

/** Runs the requests through one executor, in which the first runs alone; then runs each one alone, for comparison. */
async function runBatchedAndSingle(
  name: string,
  requests: readonly NamedTensors[],
  options: Pick<ExecutionRequest, "batching" | "padding"> = {},
) {
  // The copy gets a queue of its own.
  const session = { ...(await openSession(name)) };
  const runs: BatchRun[] = [];
  const problems: string[] = [];
  const executor = createExecutor({
    clock: new ManualClock(),
    defaultBatching: { maxBatchRows: 64 },
    onRun: (run) => runs.push(run),
    onUnbatchable: ({ problem }) => problems.push(problem),
  });
  const batched = await Promise.all(
    requests.map((inputs) => executor.execute({ session, tier: TEST_TIER, inputs, ...options })),
  );
  const single: NamedTensors[] = [];
  for (const inputs of requests) single.push(await session.run(inputs));
  return { batched, single, sizes: runs.map(({ requestCount }) => requestCount), problems };
}

describe("outputs of batches on the native runtime", () => {
  it("equal those of single runs", async () => {
    const inputs = [1, 1, 3, 2].map((rows, index): NamedTensors => {
      const data = Uint8Array.from({ length: rows * 3 }, (_, at) => (at * 37 + index * 101) % 256);
      return { x: { datatype: "UINT8", shape: [rows, 3], data } };
    });
    const { batched, single, sizes } = await runBatchedAndSingle("int8-matmul", inputs);
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 3]);
  });

  it("equal those of single runs for texts of different lengths", async () => {
    const task = getTask("text-classification");
    const preprocessor = task.createPreprocessor({
      kind: "wordpiece",
      artifact: json(tinyTokenizer),
      maxTokens: 16,
    });
    const texts = [
      ["good"],
      ["bad great good good"],
      ["great", "good bad greatly bad"],
      ["greatly"],
    ];
    const inputs = texts.map((sentences) =>
      preprocessor.encode(sentences.map((text) => ({ kind: "text", text }))),
    );
    const { batched, single, sizes } = await runBatchedAndSingle("bag-of-tokens", inputs, {
      padding: preprocessor.padding,
    });
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 3]);
  });

  it("equal those of single runs for BYTES tensors", async () => {
    const inputs = ["a", "bc", "d"].map((text): NamedTensors => ({
      x: {
        datatype: "BYTES",
        shape: [text.length],
        data: Array.from(text, (character) => new TextEncoder().encode(character)),
      },
    }));
    const { batched, single, sizes } = await runBatchedAndSingle("string-identity", inputs);
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 2]);
  });
});

/** Creates a signal of whole numbers, whose sums do not depend on their order. */
const createSignal = ({
  rows,
  samples,
  seed,
}: {
  readonly rows: number;
  readonly samples: number;
  readonly seed: number;
}): NamedTensors => ({
  signal: {
    datatype: "FP32",
    shape: [rows, 1, samples],
    data: Float32Array.from({ length: rows * samples }, (_, at) => ((at + seed) * 7919) % 19),
  },
});
const signals = fc.array(
  fc.record({
    rows: fc.integer({ min: 1, max: 3 }),
    samples: fc.integer({ min: 1, max: 9 }),
    seed: fc.nat(100),
  }),
  { minLength: 1, maxLength: 8 },
);
const buckets = fc.constantFrom<number[] | undefined>(undefined, [4, 8], [1, 2, 3], [16]);

describe("outputs of padded batches on the native runtime", () => {
  it("are cut back to the length of each request if they are as long as the run", async () => {
    await fc.assert(
      fc.asyncProperty(signals, buckets, async (requests, lengths) => {
        const { batched, single, sizes, problems } = await runBatchedAndSingle(
          "signal",
          requests.map(createSignal),
          {
            batching: { padding: { axis: 2, value: 0, buckets: lengths } },
          },
        );
        expect(batched).toEqual(single);
        expect(problems).toEqual([]);
        expect(sizes.length).toBeLessThanOrEqual(lengths === undefined ? 2 : requests.length);
      }),
      { numRuns: propertyRuns(60) },
    );
  });

  it("disable padding, with one report, if their length is not that of the run", async () => {
    const requests = [3, 4, 6, 8, 6].map((samples, seed) =>
      createSignal({ rows: 1, samples, seed }),
    );
    const { batched, single, sizes, problems } = await runBatchedAndSingle(
      "halved-signal",
      requests,
      {
        batching: { padding: { axis: 2, value: 0 } },
      },
    );
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 4, 1, 1, 1, 1]);
    expect(problems).toEqual([expect.stringMatching(/features.*\[4, 2, 4\].*\b8\b/)]);
  });
});
