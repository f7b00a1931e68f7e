// A tensor of 150 kB there and back, as JSON and as bytes: what a request costs the client, the server, and the time between.
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { decodeInferResponse, JSON_LENGTH_HEADER } from "../../../src/protocol/open-inference.ts";
import { closedLoop, type Send } from "../lib/checked-load.ts";
import { encodeModel } from "../lib/onnx-writer.ts";
import { readProcessCpuMs } from "../lib/process-cpu.ts";
import type { Random } from "../lib/random.ts";
import { roundToFourDigits } from "../lib/report.ts";
import { type BenchContext, type PartResult, withTargets } from "./bench-context.ts";
import { assertOk, measureLatencyRows } from "./compare-cases.ts";
import { startRegion } from "./target.ts";
import {
  createInferCall,
  type Encoding,
  type GraphModel,
  createNoiseWorkload,
  createNoiseTensor,
} from "./workload.ts";

const SHAPE = [3, 112, 112];
const CALLERS = 8;
const CODEC_RUNS = 20;
/** Load of both encodings, as a share of JSON's closed-loop rate. */
const SHARE = 0.5;

const port = { name: "x", datatype: "FP32" as const, shape: [-1, ...SHAPE] };

/** Answers with its input. */
export const identityModel: GraphModel = {
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

export async function compareEncodings({
  store,
  trialSettings: measuring,
}: BenchContext): Promise<PartResult> {
  return await withTargets(async (add) => {
    const target = await add(startRegion(store, identityModel.name, {}));
    const caseOf = (encoding: Encoding) => ({
      encoding,
      name: `150 kB, ${encoding}`,
      target,
      workload: createNoiseWorkload(identityModel.name, port, measuring.random, encoding),
    });
    const cases = [caseOf("json"), caseOf("binary")];
    const totals = cases.map((one) => ({ one, rates: [] as number[], serverCpuMs: 0, calls: 0 }));
    for (let round = 0; round <= measuring.rounds; round++) {
      for (const total of totals) {
        const before = await readProcessCpuMs(target.pid);
        const rate = await closedLoop(
          target.send,
          () => measuring.random.pick(total.one.workload.calls),
          CALLERS,
          measuring.secondsPerTrial,
          assertOk,
        );
        if (round === 0) continue; // it warmed up
        total.rates.push(rate);
        total.calls += rate * measuring.secondsPerTrial;
        total.serverCpuMs +=
          ((await readProcessCpuMs(target.pid)) ?? Number.NaN) - (before ?? Number.NaN);
      }
    }
    const rateOf = (rates: readonly number[]) =>
      rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
    const rows = [];
    for (const { one, rates, serverCpuMs, calls } of totals) {
      const { encodeMs, decodeMs } = await measureCodecs(
        one.encoding,
        target.send,
        measuring.random,
      );
      const requestBytes = Buffer.byteLength(one.workload.calls[0]?.body ?? "");
      rows.push({
        case: `${one.name}, ${CALLERS} callers`,
        perSecond: roundToFourDigits(rateOf(rates)),
        requestBytes,
        serverCpuMsPerCall: roundToFourDigits(serverCpuMs / calls),
        clientEncodeMs: encodeMs,
        clientDecodeMs: decodeMs,
      });
    }
    const [json, binary] = totals.map(({ rates }) => rateOf(rates));
    const openRate = SHARE * (json ?? Number.NaN);
    const open = await measureLatencyRows(
      new Map(cases.map((one) => [one, openRate])),
      "open loop",
      measuring,
    );
    return {
      rows: [...rows, ...open.values()],
      figures: {
        binaryVsJsonRatio: roundToFourDigits((binary ?? Number.NaN) / (json ?? Number.NaN)),
      },
    };
  });
}

/** The client's time for encoding a request body and decoding a response body. */
async function measureCodecs(
  encoding: Encoding,
  send: Send,
  random: Random,
): Promise<{ encodeMs: number; decodeMs: number }> {
  const inputs: NamedTensors = { x: createNoiseTensor(port, 1, random) };
  const call = createInferCall(identityModel.name, inputs, encoding);
  const { bytes, headers } = await send(call);
  const jsonBytes =
    headers[JSON_LENGTH_HEADER] === undefined ? undefined : Number(headers[JSON_LENGTH_HEADER]);
  return {
    encodeMs: measureMs(() => createInferCall(identityModel.name, inputs, encoding)),
    decodeMs: measureMs(() => decodeInferResponse(bytes, jsonBytes)),
  };
}

function measureMs(action: () => unknown): number {
  action();
  const startedMs = performance.now();
  for (let run = 0; run < CODEC_RUNS; run++) action();
  return roundToFourDigits((performance.now() - startedMs) / CODEC_RUNS);
}
