// A tensor of 150 kB there and back, as JSON and as bytes: what a request costs the client, the server, and the time between.
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { decodeInferResponse, JSON_LENGTH_HEADER } from "../../../src/protocol/open-inference.ts";
import { closedLoop, type Send } from "../lib/load.ts";
import { encodeModel } from "../lib/onnx-writer.ts";
import { cpuMsOf } from "../lib/process-cpu.ts";
import type { Random } from "../lib/random.ts";
import { rounded } from "../lib/report.ts";
import { type Bench, type PartResult, withTargets } from "./bench.ts";
import { check, latencyRows } from "./compare.ts";
import { startRegion } from "./target.ts";
import { callOf, type Encoding, type GraphModel, noise, noiseTensor } from "./workload.ts";

const SHAPE = [3, 112, 112];
const CALLERS = 8;
const CODEC_RUNS = 20;
/** Of what callers that wait get of JSON, for both. */
const SHARE = 0.5;

const port = { name: "x", datatype: "FP32" as const, shape: [-1, ...SHAPE] };

/** Answers with its input. */
export const identity: GraphModel = {
  name: "identity",
  graph: encodeModel({
    name: "identity",
    opset: 13,
    inputs: [{ ...port, shape: ["batch", ...SHAPE] }],
    outputs: [{ ...port, name: "y", shape: ["batch", ...SHAPE] }],
    nodes: [{ op: "Identity", inputs: ["x"], outputs: ["y"] }],
    initializers: {},
  }),
  inputs: [port],
  outputs: [{ ...port, name: "y" }],
};

export async function compareEncodings({ store, measuring }: Bench): Promise<PartResult> {
  return await withTargets(async (add) => {
    const target = await add(startRegion(store, identity.name, {}));
    const caseOf = (encoding: Encoding) => ({
      encoding,
      name: `150 kB, ${encoding}`,
      target,
      workload: noise(identity.name, port, measuring.random, encoding),
    });
    const cases = [caseOf("json"), caseOf("binary")];
    const totals = cases.map((one) => ({ one, rates: [] as number[], serverCpuMs: 0, calls: 0 }));
    for (let round = 0; round <= measuring.rounds; round++) {
      for (const total of totals) {
        const before = await cpuMsOf(target.pid);
        const rate = await closedLoop(
          target.send,
          () => measuring.random.pick(total.one.workload.calls),
          CALLERS,
          measuring.secondsPerTrial,
          check,
        );
        if (round === 0) continue; // it warmed up
        total.rates.push(rate);
        total.calls += rate * measuring.secondsPerTrial;
        total.serverCpuMs += ((await cpuMsOf(target.pid)) ?? Number.NaN) - (before ?? Number.NaN);
      }
    }
    const rateOf = (rates: readonly number[]) =>
      rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
    const rows = [];
    for (const { one, rates, serverCpuMs, calls } of totals) {
      const { encodeMs, decodeMs } = await codecTimes(one.encoding, target.send, measuring.random);
      const requestBytes = Buffer.byteLength(one.workload.calls[0]?.body ?? "");
      rows.push({
        case: `${one.name}, ${CALLERS} callers`,
        perSecond: rounded(rateOf(rates)),
        requestBytes,
        serverCpuMsPerCall: rounded(serverCpuMs / calls),
        clientEncodeMs: encodeMs,
        clientDecodeMs: decodeMs,
      });
    }
    const [json, binary] = totals.map(({ rates }) => rateOf(rates));
    const openRate = SHARE * (json ?? Number.NaN);
    const open = await latencyRows(
      new Map(cases.map((one) => [one, openRate])),
      "open loop",
      measuring,
    );
    return {
      rows: [...rows, ...open.values()],
      figures: { binaryVsJsonRatio: rounded((binary ?? Number.NaN) / (json ?? Number.NaN)) },
    };
  });
}

/** What making a request's body and reading an answer's takes this project's own client. */
async function codecTimes(
  encoding: Encoding,
  send: Send,
  random: Random,
): Promise<{ encodeMs: number; decodeMs: number }> {
  const inputs: NamedTensors = { x: noiseTensor(port, 1, random) };
  const call = callOf(identity.name, inputs, encoding);
  const { bytes, headers } = await send(call);
  const jsonBytes =
    headers[JSON_LENGTH_HEADER] === undefined ? undefined : Number(headers[JSON_LENGTH_HEADER]);
  return {
    encodeMs: timeOf(() => callOf(identity.name, inputs, encoding)),
    decodeMs: timeOf(() => decodeInferResponse(bytes, jsonBytes)),
  };
}

function timeOf(action: () => unknown): number {
  action();
  const startedMs = performance.now();
  for (let run = 0; run < CODEC_RUNS; run++) action();
  return rounded((performance.now() - startedMs) / CODEC_RUNS);
}
