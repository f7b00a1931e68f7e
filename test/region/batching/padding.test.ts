// Padding: rows of different lengths share a run, and nobody's answer shows it.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import type { NamedTensors, Tensor } from "../../../src/core/tensor.ts";
import { createExecutor } from "../../../src/region/server/batching/create-executor.ts";
import type { BatchRun, ExecutionRequest } from "../../../src/region/server/executor.ts";
import type { BatchingConfig } from "../../../src/registry/serving-config.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import type { Session } from "../../../src/runtime/runtime.ts";
import { getTask } from "../../../src/tasks/tasks.ts";
import { json, tinyTokenizer } from "../../fixtures/tiny-tokenizer.ts";
import { readFixture } from "../region-fixture.ts";
import { createExecutorFixture, TEST_TIER } from "./manual-session.ts";
import { propertyRuns } from "../../support/property-runs.ts";

const padding = { axis: 1, value: 0 };

describe("what was encoded here", () => {
  it("shares a run where it may be padded, and only there", async () => {
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

  it("takes the model's buckets: works of one are padded up to it, single ones too", async () => {
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

  it("is run as it is where an output varies elsewhere, too", async () => {
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

  it("does not share a run with what is padded with something else", async () => {
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

  it("buffers are used again, and their old content with them never shows", async () => {
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

/** A session that keeps what it is given, and gives nothing. */
function recordingSession(inputs: Session["inputs"]) {
  const seen: NamedTensors[] = [];
  const copied = ([name, tensor]: [string, Tensor]) => [
    name,
    { ...tensor, data: tensor.data.slice() } as Tensor,
  ];
  const run = async (given: NamedTensors) => (
    seen.push(Object.fromEntries(Object.entries(given).map(copied))),
    {}
  );
  const session: Session = { inputs, outputs: [], memoryBytes: 0, run, dispose: async () => {} };
  return { session, seen };
}

describe("what a client sends", () => {
  const declared: BatchingConfig = { padding: { axis: 1, value: -7 } };

  it("is padded as the model declares, in blocks", async () => {
    const { session, seen } = recordingSession([
      { name: "x", datatype: "INT64", shape: [-1, -1, 2] },
    ]);
    const executor = createExecutor({ defaultBatching: declared });
    const wide = (columns: number, value: bigint): NamedTensors => ({
      x: {
        datatype: "INT64",
        shape: [1, columns, 2],
        data: new BigInt64Array(columns * 2).fill(value),
      },
    });
    await Promise.all(
      [wide(1, 1n), wide(1, 2n), wide(2, 3n)].map((inputs) =>
        executor.execute({ session, tier: TEST_TIER, inputs }),
      ),
    );
    expect(seen[1]).toEqual({
      x: {
        datatype: "INT64",
        shape: [2, 2, 2],
        data: BigInt64Array.of(2n, 2n, -7n, -7n, 3n, 3n, 3n, 3n),
      },
    });
  });

  it("is left as it is where inputs of one work differ in length, or cannot be padded", async () => {
    const { session, seen } = recordingSession([
      { name: "x", datatype: "FP32", shape: [-1, -1] },
      { name: "y", datatype: "FP32", shape: [-1, -1] },
    ]);
    const halves = recordingSession([{ name: "x", datatype: "FP16", shape: [-1, -1] }]);
    const executor = createExecutor({ defaultBatching: declared });
    const x = (columns: number): Tensor => ({
      datatype: "FP32",
      shape: [1, columns],
      data: new Float32Array(columns),
    });
    const half = (columns: number): Tensor => ({
      datatype: "FP16",
      shape: [1, columns],
      data: new Uint16Array(columns),
    });
    await Promise.all(
      [
        [1, 2],
        [1, 2],
        [2, 3],
      ].map(([a = 0, b = 0]) =>
        executor.execute({ session, tier: TEST_TIER, inputs: { x: x(a), y: x(b) } }),
      ),
    );
    await Promise.all(
      [1, 1, 2].map((columns) =>
        executor.execute({
          session: halves.session,
          tier: TEST_TIER,
          inputs: { x: half(columns) },
        }),
      ),
    );
    expect(seen.map(({ x, y }) => [x?.shape, y?.shape])).toEqual([
      [
        [1, 1],
        [1, 2],
      ],
      [
        [1, 1],
        [1, 2],
      ],
      [
        [1, 2],
        [1, 3],
      ],
    ]);
    expect(halves.seen.map(({ x }) => x?.shape)).toEqual([
      [1, 1],
      [1, 1],
      [1, 2],
    ]);
  });
});

describe("on the native runtime", () => {
  const sessions = new Map<string, Session>();
  const sessionOf = (name: string) =>
    sessions.get(name) ?? expect.unreachable(`no session ${name}`);
  beforeAll(async () => {
    for (const name of [
      "signal",
      "halved-signal",
      "bag-of-tokens",
      "int8-matmul",
      "string-identity",
    ])
      sessions.set(
        name,
        await createNativeRuntime({ intraOpThreads: 1 }).createSession(
          await readFixture(`${name}.onnx`),
        ),
      );
  });
  afterAll(() => Promise.all([...sessions.values()].map((session) => session.dispose())));

  /** All works at once through one executor, the first of them alone and the others as they can; then each by itself. */
  async function both(
    name: string,
    inputs: readonly NamedTensors[],
    work: Pick<ExecutionRequest, "batching" | "padding"> = {},
  ) {
    const session = { ...sessionOf(name) }; // a lane of its own
    const runs: BatchRun[] = [];
    const problems: string[] = [];
    const executor = createExecutor({
      clock: new ManualClock(),
      defaultBatching: { maxBatchRows: 64 },
      onRun: (run) => runs.push(run),
      onUnbatchable: ({ problem }) => problems.push(problem),
    });
    const batched = await Promise.all(
      inputs.map((one) => executor.execute({ session, tier: TEST_TIER, inputs: one, ...work })),
    );
    const single: NamedTensors[] = [];
    for (const one of inputs) single.push(await session.run(one));
    return { batched, single, sizes: runs.map(({ requestCount: works }) => works), problems };
  }

  it("rows of a batch are those of single runs", async () => {
    const inputs = [1, 1, 3, 2].map((rows, index): NamedTensors => {
      const data = Uint8Array.from({ length: rows * 3 }, (_, at) => (at * 37 + index * 101) % 256);
      return { x: { datatype: "UINT8", shape: [rows, 3], data } };
    });
    const { batched, single, sizes } = await both("int8-matmul", inputs);
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 3]);
  });

  it("of texts of different lengths, too", async () => {
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
    const inputs = texts.map((ones) =>
      preprocessor.encode(ones.map((text) => ({ kind: "text", text }))),
    );
    const { batched, single, sizes } = await both("bag-of-tokens", inputs, {
      padding: preprocessor.padding,
    });
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 3]);
  });

  it("of texts as bytes, too", async () => {
    const inputs = ["a", "bc", "d"].map((text): NamedTensors => ({
      x: {
        datatype: "BYTES",
        shape: [text.length],
        data: Array.from(text, (one) => new TextEncoder().encode(one)),
      },
    }));
    const { batched, single, sizes } = await both("string-identity", inputs);
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 2]);
  });

  /** Whole numbers, so that sums do not depend on their order. */
  const signal = ({
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

  it("of signals of any lengths: outputs that are as long as the run are cut back to each one's own length", async () => {
    await fc.assert(
      fc.asyncProperty(signals, buckets, async (works, lengths) => {
        const { batched, single, sizes, problems } = await both("signal", works.map(signal), {
          batching: { padding: { axis: 2, value: 0, buckets: lengths } },
        });
        expect(batched).toEqual(single);
        expect(problems).toEqual([]);
        expect(sizes.length).toBeLessThanOrEqual(lengths === undefined ? 2 : works.length);
      }),
      { numRuns: propertyRuns(60) },
    );
  });

  it("where an output's length is not the run's, padding is given up, and reported once", async () => {
    const works = [3, 4, 6, 8, 6].map((samples, seed) => signal({ rows: 1, samples, seed }));
    const { batched, single, sizes, problems } = await both("halved-signal", works, {
      batching: { padding: { axis: 2, value: 0 } },
    });
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 4, 1, 1, 1, 1]);
    expect(problems).toEqual(["output features has shape [4, 2, 4] for inputs padded to 8"]);
  });
});
