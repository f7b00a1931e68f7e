// Tests sessions in processes and threads: effects of a worker's end on its session, its server and memory.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, it } from "vitest";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { createIsolatedRuntime } from "../../src/runtime/native/isolated-runtime.ts";
import type { NativeSession } from "../../src/runtime/native/native-runtime.ts";
import type { NativeSessionOptions } from "../../src/runtime/native/session-options.ts";
import type { WorkerEvent } from "../../src/runtime/native/supervised-session.ts";
import { createMobileNet } from "../bench/lib/mobilenet.ts";

const readFixture = async (name: string) =>
  new Uint8Array(await readFile(new URL(`../fixtures/${name}`, import.meta.url)));
const tokenIds = (...values: bigint[]): NamedTensors => ({
  x: { datatype: "INT64", shape: [values.length], data: BigInt64Array.from(values) },
});
const token = { datatype: "INT64", shape: [1, 1], data: BigInt64Array.of(4n) } as const;
const slowInputs: NamedTensors = { input_ids: token, attention_mask: token };

const sessions: NativeSession[] = [];
afterEach(async () => {
  await Promise.all(sessions.splice(0).map((session) => session.dispose()));
});

async function openProcess(model: string, options?: NativeSessionOptions) {
  const events: WorkerEvent[] = [];
  const runtime = createIsolatedRuntime("process", {
    session: { intraOpThreads: 1 },
    restartPolicy: { initialDelayMs: 1, restartWaitMs: 15_000 },
    onEvent: (event) => events.push(event),
  });
  const session = await runtime.createSession(await readFixture(model), options);
  sessions.push(session);
  const pids = () =>
    events.flatMap((event) =>
      event.event === "session_worker_started" && event.pid !== undefined ? [event.pid] : [],
    );
  return { session, events, pids };
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe("a session in a process", () => {
  it.each(["SIGSEGV", "SIGABRT", "SIGKILL"] as const)(
    "fails its runs with a retryable error when it ends by %s, and recovers by itself",
    async (signal) => {
      const { session, events, pids } = await openProcess("slow-bag-of-tokens.onnx", {
        label: "slow@1",
      });
      const runs = [session.run(slowInputs), session.run(slowInputs)];
      const outcomes = Promise.allSettled(runs);
      process.kill(pids()[0] ?? 0, signal);
      for (const outcome of await outcomes) {
        expect(outcome).toMatchObject({
          status: "rejected",
          reason: {
            code: "session_lost",
            status: 503,
            retryable: true,
            detail: expect.stringContaining(`by ${signal}`),
          },
        });
      }
      expect(Object.keys(await session.run(slowInputs))).toEqual(["logits"]);
      expect(events).toMatchObject([
        { event: "session_worker_started", label: "slow@1" },
        { event: "session_worker_ended", label: "slow@1", pid: pids()[0], how: `by ${signal}` },
        { event: "session_worker_started", label: "slow@1", pid: pids()[1] },
      ]);
    },
  );

  it("ignores the signals that a terminal or a service manager sends to all processes", async () => {
    const { session, events, pids } = await openProcess("slow-bag-of-tokens.onnx");
    const run = session.run(slowInputs);
    process.kill(pids()[0] ?? 0, "SIGTERM");
    process.kill(pids()[0] ?? 0, "SIGINT");
    await run;
    await session.run(slowInputs);
    expect(events).toHaveLength(1);
  });

  it("ends with its disposal", async () => {
    const { session, pids } = await openProcess("int64-identity.onnx");
    await session.dispose();
    expect(isAlive(pids()[0] ?? 0)).toBe(false);
  });
});

describe("a session's process", () => {
  it("counts its own memory, and the model that the server keeps for restarts", async () => {
    const { session } = await openProcess("int64-identity.onnx");
    const model = await readFixture("int64-identity.onnx");
    expect(session.memoryBytes).toBeGreaterThan(model.byteLength + 10 * 2 ** 20);
    expect(session.memoryBytes).toBeLessThan(200 * 2 ** 20);
  });

  it("is killed by its signal during a run, and does not restart", async () => {
    const controller = new AbortController();
    const events: WorkerEvent[] = [];
    const runtime = createIsolatedRuntime("process", { onEvent: (event) => events.push(event) });
    const session = await runtime.createSession(
      await readFixture("slow-bag-of-tokens.onnx"),
      {},
      controller.signal,
    );
    const run = session.run(slowInputs);
    controller.abort();
    await expect(run).rejects.toMatchObject({ code: "session_lost" });
    await expect(session.run(slowInputs)).rejects.toMatchObject({ code: "session_failed" });
    await session.dispose();
    expect(events).toHaveLength(1);
  });
});

it("keeps the memory of server and processes flat over reloads", { timeout: 60_000 }, async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage: () => void = runInNewContext("gc");
  const model = createMobileNet({ seed: 1, width: 1, resolution: 32, classes: 1000 });
  const pixels = {
    datatype: "FP32",
    shape: [1, 3, 32, 32],
    data: new Float32Array(3 * 32 * 32),
  } as const;
  const runtime = createIsolatedRuntime("process", { session: { intraOpThreads: 1 } });
  const serverBytes: number[] = [];
  const sessionBytes: number[] = [];
  for (let reload = 0; reload < 40; reload++) {
    const session = await runtime.createSession(model);
    await session.run({ pixels });
    sessionBytes.push(session.memoryBytes);
    await session.dispose();
    collectGarbage();
    serverBytes.push(process.memoryUsage.rss());
  }
  // A leak of one model of 4 MB per reload would add 80 MB in the second half.
  const half = (bytes: number[], from: number) => bytes.slice(from, from + 20);
  expect(Math.max(...half(serverBytes, 20)) - Math.max(...half(serverBytes, 0))).toBeLessThan(
    model.byteLength * 5,
  );
  expect(Math.max(...sessionBytes) / Math.min(...sessionBytes)).toBeLessThan(1.25);
});

describe("a server", () => {
  const OPEN_SESSION = `
    import { readFileSync } from "node:fs";
    import { createIsolatedRuntime } from ${JSON.stringify(new URL("../../src/runtime/native/isolated-runtime.ts", import.meta.url).href)};
    const model = new Uint8Array(readFileSync(${JSON.stringify(new URL("../fixtures/slow-bag-of-tokens.onnx", import.meta.url).pathname)}));
    const runtime = createIsolatedRuntime("process", { onEvent: (event) => console.log(event.pid) });
    const session = await runtime.createSession(model);
    const token = { datatype: "INT64", shape: [1, 1], data: BigInt64Array.of(4n) };
  `;
  const start = (script: string) =>
    spawn(process.execPath, ["--input-type=module", "--eval", OPEN_SESSION + script], {
      stdio: ["ignore", "pipe", "inherit"],
    });

  it("leaves no worker behind when it is killed during a run", async () => {
    const server = start("session.run({ input_ids: token, attention_mask: token });");
    const [pid] = await once(createInterface(server.stdout), "line");
    const exited = once(server, "exit");
    server.kill("SIGKILL");
    await exited;
    await expect.poll(() => isAlive(Number(pid)), { timeout: 10_000 }).toBe(false);
  });

  it("is kept running by a run, but not by a session", async () => {
    const server = start(
      "session.run({ input_ids: token, attention_mask: token }).then((outputs) => console.log(Object.keys(outputs)[0]));",
    );
    const lines: string[] = [];
    createInterface(server.stdout).on("line", (line) => lines.push(line));
    expect(await once(server, "exit")).toEqual([0, null]);
    expect(lines[1]).toBe("logits");
  });
});

describe.each(["process", "thread", "none"] as const)("isolation %s", (isolation) => {
  it("accepts a view of a larger buffer", async () => {
    const session = await createIsolatedRuntime(isolation).createSession(
      await readFixture("int64-identity.onnx"),
    );
    sessions.push(session);
    const all = BigInt64Array.of(1n, 2n, 3n, 4n);
    expect(
      await session.run({ x: { datatype: "INT64", shape: [2], data: all.subarray(1, 3) } }),
    ).toEqual({ y: tokenIds(2n, 3n)["x"] });
  });

  it("counts the nodes of the first run on request", async () => {
    const session = await createIsolatedRuntime(isolation, {
      session: { countNodes: true },
    }).createSession(await readFixture("bag-of-tokens.onnx"));
    sessions.push(session);
    expect(session.nodes).toBeUndefined();
    await session.run(slowInputs);
    expect(session.nodes).toEqual({ cpu: expect.any(Number) });
    expect(session.nodes?.cpu).toBeGreaterThan(2);
  });
});

it("optimizes a graph to the configured level, on a CPU with and without an arena", async () => {
  const nodes: number[] = [];
  for (const [graphOptimization, arena] of [
    ["disabled", true],
    ["basic", false],
    ["all", false],
  ] as const) {
    const session = await createIsolatedRuntime("none").createSession(
      await readFixture("../../models/intent/artifacts/region.onnx"),
      { graphOptimization, countNodes: true, provider: { name: "cpu", arena } },
    );
    sessions.push(session);
    await session.run(slowInputs);
    nodes.push(session.nodes?.cpu ?? 0);
  }
  expect(new Set(nodes).size).toBe(3); // "basic" may also add nodes when it splits others
  expect(nodes[2]).toBeGreaterThan(0);
  expect(nodes[2]).toBeLessThan(nodes[0] ?? 0);
});
