// The batching executor: what shares a run, whose answer is whose, and what a failing run does to its works.
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import { errors } from "../../../src/core/errors.ts";
import type { NamedTensors, Tensor } from "../../../src/core/tensor.ts";
import { createBatchingExecutor } from "../../../src/region/server/batching/batching-executor.ts";
import { createFixedPolicy } from "../../../src/region/server/batching/delay-policy.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { taskByName } from "../../../src/tasks/tasks.ts";
import { json, tinyTokenizer } from "../../fixtures/tiny-tokenizer.ts";
import { fixture } from "../world.ts";
import { createScene, settled } from "./held-session.ts";

const padding = { axis: 1, value: 0 };

describe("what shares a run", () => {
  it("works of different widths where they may be padded, and only there", async () => {
    const { send, runs, endRun, answers } = createScene();
    send([1]);
    send([[2, 2]], { padding });
    send([[3, 3, 3], [3, 3, 3]], { padding });
    send([[4, 4]]);
    send([5]);
    for (let run = 0; run < 4; run++) await endRun();
    expect(runs.map((run) => run.shape)).toEqual([[1, 1], [3, 3], [1, 2], [1, 1]]);
    expect(answers).toEqual({ 1: [1], 2: [4], 3: [9, 9], 4: [8], 5: [5] });
  });

  it("with buckets, works of one bucket, padded up to it", async () => {
    const { send, runs, endRun, answers } = createScene();
    const bucketed = { padding: { ...padding, buckets: [2, 4] } };
    send([1]);
    send([2], bucketed);
    send([[3, 3]], bucketed);
    send([[4, 4, 4]], bucketed);
    send([[5, 5, 5]], bucketed);
    send([[6, 6, 6, 6, 6]], bucketed);
    for (let run = 0; run < 4; run++) await endRun();
    expect(runs.map((run) => run.shape)).toEqual([[1, 1], [2, 2], [2, 4], [1, 5]]);
    expect(answers).toMatchObject({ 2: [2], 3: [6], 4: [12], 5: [15], 6: [30] });
  });

  it("nothing is padded where an output could come out wider for it", async () => {
    const { send, runs, endRun, session } = createScene();
    Object.assign(session, { outputs: [{ name: "sum", datatype: "FP32", shape: [-1, -1] }] });
    send([1]);
    send([2], { padding });
    send([[3, 3]], { padding });
    for (let run = 0; run < 3; run++) await endRun();
    expect(runs.map((run) => run.shape)).toEqual([[1, 1], [1, 1], [1, 2]]);
  });

  it("a single work of more rows than a batch runs by itself", async () => {
    const { send, endRun, reasons } = createScene({ maxBatchRows: 2 });
    send([1]);
    send([2, 2, 2]);
    send([3]);
    for (let run = 0; run < 3; run++) await endRun();
    expect(reasons()).toEqual(["idle 1", "full 3", "idle 1"]);
  });

  it("nothing, where the model's first dimension is fixed", async () => {
    const { send, endRun, runs, session, onUnbatchable } = createScene();
    Object.assign(session, { inputs: [{ name: "x", datatype: "FP32", shape: [1, -1] }] });
    [1, 2, 3].forEach((id) => send([id]));
    for (let run = 0; run < 3; run++) await endRun();
    expect(runs).toHaveLength(3);
    expect(onUnbatchable).not.toHaveBeenCalled();
  });

  it("buffers are used again, and their old content with them never shows", async () => {
    const { send, endRun, answers } = createScene();
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

describe("who is refused", () => {
  it("work whose tensors do not fit the model, at once and alone", async () => {
    const { send, executor, session, endRun, answers } = createScene();
    send([1]);
    send([2]);
    const short: Tensor = { datatype: "FP32", shape: [2, 1], data: Float32Array.of(1) };
    await expect(executor.execute({ session, inputs: { x: short } })).rejects.toMatchObject({ code: "invalid_tensor" });
    await endRun();
    await endRun();
    expect(answers).toEqual({ 1: [1], 2: [2] });
  });

  it.each([errors.sessionFailed("out of range"), errors.invalidTensor("x", "out of range")])("a work that fails its batch with $code fails alone", async (error) => {
    const { send, runs, endRun, answers } = createScene();
    [1, 2, 3, 4].forEach((id) => send([id]));
    await endRun();
    runs.at(-1)?.fail(error); // of 2, 3 and 4
    await settled();
    await endRun(); // 2
    runs.at(-1)?.fail(error); // 3
    await settled();
    expect(answers).toEqual({ 1: [1], 2: [2], 3: error.code });
    await endRun();
    expect(answers).toMatchObject({ 4: [4] });
  });

  it("a failure that is no work's fault is that of them all, without another run", async () => {
    const { send, runs, endRun, answers } = createScene();
    [1, 2, 3].forEach((id) => send([id]));
    await endRun();
    runs.at(-1)?.fail(new Error("broken"));
    await settled();
    expect(answers).toEqual({ 1: [1], 2: "Error: broken", 3: "Error: broken" });
    expect(runs).toHaveLength(2);
    send([4]);
    await endRun();
    expect(answers).toMatchObject({ 4: [4] });
  });

  it("who leaves while the batch is tried again is left out", async () => {
    const { send, runs, endRun, firsts } = createScene();
    const client = new AbortController();
    send([1]);
    send([2]);
    send([3], { signal: client.signal });
    await endRun();
    runs.at(-1)?.fail(errors.sessionFailed("out of range"));
    await settled();
    client.abort();
    await endRun();
    expect(firsts()).toEqual([[1], [2, 3], [2]]);
  });
});

describe("a model whose outputs have no row for each of a batch", () => {
  it("runs its works one by one from then on, and is reported once", async () => {
    const { send, runs, endRun, answers, onUnbatchable } = createScene();
    const pooled: NamedTensors = { sum: { datatype: "FP32", shape: [1, 1], data: Float32Array.of(9) } };
    [1, 2, 3].forEach((id) => send([id]));
    await endRun();
    runs.at(-1)?.end(pooled);
    await settled();
    [4, 5].forEach((id) => send([id]));
    for (let run = 0; run < 4; run++) await endRun();
    expect(answers).toEqual({ 1: [1], 2: [2], 3: [3], 4: [4], 5: [5] });
    expect(runs.map((run) => run.rows.length)).toEqual([1, 2, 1, 1, 1, 1]);
    expect(onUnbatchable.mock.calls.map(([event]) => event.problem)).toEqual(["output sum has shape [1, 1] for a batch of 2 rows"]);
  });
});

describe("sessions", () => {
  it("with two instances have two runs at a time", async () => {
    const { send, runs, firsts } = createScene({ instances: 2 });
    [1, 2, 3, 4].forEach((id) => send([id]));
    await settled();
    expect(firsts()).toEqual([[1], [2]]);
    runs[0]?.end();
    await settled();
    expect(firsts()).toEqual([[1], [2], [3, 4]]);
  });
});

describe("on the native runtime", () => {
  /** All works at once through one executor, the first of them alone and the others in one batch; then each by itself. */
  async function both(model: string, inputs: readonly NamedTensors[], rest: object = {}) {
    const session = await createNativeRuntime({ intraOpThreads: 1 }).createSession(await fixture(model));
    const sizes: number[] = [];
    const executor = createBatchingExecutor({ clock: new ManualClock(), policy: () => createFixedPolicy(), maxBatchRows: 64, onDispatch: ({ works }) => sizes.push(works) });
    const batched = await Promise.all(inputs.map((one) => executor.execute({ session, inputs: one, ...rest })));
    const single: NamedTensors[] = [];
    for (const one of inputs) single.push(await session.run(one));
    await session.dispose();
    return { batched, single, sizes };
  }

  it("rows of a batch are those of single runs", async () => {
    const inputs = [1, 1, 3, 2].map((rows, index): NamedTensors => {
      const data = Uint8Array.from({ length: rows * 3 }, (_, at) => (at * 37 + index * 101) % 256);
      return { x: { datatype: "UINT8", shape: [rows, 3], data } };
    });
    const { batched, single, sizes } = await both("int8-matmul.onnx", inputs);
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 3]);
  });

  it("of texts of different lengths, too", async () => {
    const task = taskByName("text-classification");
    const preprocessor = task.createPreprocessor({ kind: "wordpiece", artifact: json(tinyTokenizer), maxTokens: 16 });
    const texts = [["good"], ["bad great good good"], ["great", "good bad greatly bad"], ["greatly"]];
    const inputs = texts.map((ones) => preprocessor.encode(ones.map((text) => ({ kind: "text", text }))));
    const { batched, single, sizes } = await both("bag-of-tokens.onnx", inputs, { padding: preprocessor.padding });
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 3]);
  });

  it("of texts as bytes, too", async () => {
    const inputs = ["a", "bc", "d"].map((text): NamedTensors => ({ x: { datatype: "BYTES", shape: [text.length], data: Array.from(text, (one) => new TextEncoder().encode(one)) } }));
    const { batched, single, sizes } = await both("string-identity.onnx", inputs);
    expect(batched).toEqual(single);
    expect(sizes).toEqual([1, 2]);
  });

  it("one work that the model cannot take does not fail its neighbours", async () => {
    const session = await createNativeRuntime({ intraOpThreads: 1 }).createSession(await fixture("bag-of-tokens.onnx"));
    const executor = createBatchingExecutor({ policy: () => createFixedPolicy(), maxBatchRows: 64 });
    const tokens = (id: bigint): NamedTensors => ({
      input_ids: { datatype: "INT64", shape: [1, 1], data: BigInt64Array.of(id) },
      attention_mask: { datatype: "INT64", shape: [1, 1], data: BigInt64Array.of(1n) },
    });
    const outcomes = await Promise.allSettled([4n, 5n, 99n, 6n].map((id) => executor.execute({ session, inputs: tokens(id) })));
    await session.dispose();
    expect(outcomes.map((one) => (one.status === "fulfilled" ? [...(one.value["logits"]?.data ?? [])] : one.reason.code))).toEqual([[1, 0], [0, 1], "session_failed", [2, -1]]);
  });
});

it("tensors of every numeric datatype are padded with the value", async () => {
  const { session } = createScene();
  const spec = { inputs: [{ name: "x", datatype: "INT64" as const, shape: [-1, -1, 2] }], outputs: [] };
  const seen: Tensor[] = [];
  const executor = createBatchingExecutor({ policy: () => createFixedPolicy(), maxBatchRows: 8 });
  const recording = { ...session, ...spec, run: async ({ x }: NamedTensors) => (x !== undefined && seen.push({ ...x, data: x.data.slice() } as Tensor), {}) };
  const wide = (columns: number, value: bigint): NamedTensors => ({ x: { datatype: "INT64", shape: [1, columns, 2], data: new BigInt64Array(columns * 2).fill(value) } });
  const works = [wide(1, 1n), wide(1, 2n), wide(2, 3n)].map((inputs) => executor.execute({ session: recording, inputs, padding: { axis: 1, value: -7 } }));
  await Promise.all(works);
  expect(seen[1]).toEqual({ datatype: "INT64", shape: [2, 2, 2], data: BigInt64Array.of(2n, 2n, -7n, -7n, 3n, 3n, 3n, 3n) });
});
