// Encodings: sends a tensor of 150 kB to an identity model and back, as JSON and as bytes. Measures the costs of client and
// server, and the latency.
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { decodeInferResponse, JSON_LENGTH_HEADER } from "../../../src/protocol/open-inference.ts";
import { closedLoop, type Send } from "../lib/checked-load.ts";
import { encodeModel } from "../lib/onnx-writer.ts";
import { readProcessCpuMs } from "../lib/process-cpu.ts";
import type { Random } from "../lib/random.ts";
import { roundToFourDigits } from "../lib/report.ts";
import { type BenchContext, type PartResult, withTargets } from "./bench-context.ts";
import {
  assertOk,
  type BenchCase,
  measureLatencyRows,
  type TrialSettings,
} from "./compare-cases.ts";
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

/** Model that returns its input. */
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

interface EncodingCase extends BenchCase {
  readonly encoding: Encoding;
}

interface EncodingTotals {
  readonly case: EncodingCase;
  readonly rates: number[];
  serverCpuMs: number;
  calls: number;
}

export async function compareEncodings({
  store,
  trialSettings,
}: BenchContext): Promise<PartResult> {
  const { random } = trialSettings;
  return await withTargets(async (add) => {
    const target = await add(startRegion(store, identityModel.name, {}));
    const cases = (["json", "binary"] as const).map((encoding) => ({
      encoding,
      name: `150 kB, ${encoding}`,
      target,
      workload: createNoiseWorkload(identityModel.name, port, random, encoding),
    }));
    const totals = await measureClosedLoops(cases, trialSettings);
    const rows = [];
    for (const total of totals) rows.push(await createRow(total, random));
    const [jsonRate = Number.NaN, binaryRate = Number.NaN] = totals.map(({ rates }) =>
      computeMean(rates),
    );
    const openLoopRows = await measureLatencyRows(
      new Map(cases.map((benchCase) => [benchCase, SHARE * jsonRate])),
      "open loop",
      trialSettings,
    );
    return {
      rows: [...rows, ...openLoopRows.values()],
      figures: { binaryVsJsonRatio: roundToFourDigits(binaryRate / jsonRate) },
    };
  });
}

/** Measures the cases alternately. The first round is a warm-up and does not count. */
async function measureClosedLoops(
  cases: readonly EncodingCase[],
  { random, rounds, secondsPerTrial }: TrialSettings,
): Promise<EncodingTotals[]> {
  const totals = cases.map((benchCase): EncodingTotals => ({
    case: benchCase,
    rates: [],
    serverCpuMs: 0,
    calls: 0,
  }));
  for (let round = 0; round <= rounds; round++) {
    for (const total of totals) {
      const { target, workload } = total.case;
      const cpuMsBefore = await readProcessCpuMs(target.pid);
      const rate = await closedLoop(
        target.send,
        () => random.pick(workload.calls),
        CALLERS,
        secondsPerTrial,
        assertOk,
      );
      if (round === 0) continue;
      total.rates.push(rate);
      total.calls += rate * secondsPerTrial;
      total.serverCpuMs +=
        ((await readProcessCpuMs(target.pid)) ?? Number.NaN) - (cpuMsBefore ?? Number.NaN);
    }
  }
  return totals;
}

async function createRow(
  { case: { name, encoding, target, workload }, rates, serverCpuMs, calls }: EncodingTotals,
  random: Random,
) {
  const { encodeMs, decodeMs } = await measureCodecs(encoding, target.send, random);
  return {
    case: `${name}, ${CALLERS} callers`,
    perSecond: roundToFourDigits(computeMean(rates)),
    requestBytes: Buffer.byteLength(workload.calls[0]?.body ?? ""),
    serverCpuMsPerCall: roundToFourDigits(serverCpuMs / calls),
    clientEncodeMs: encodeMs,
    clientDecodeMs: decodeMs,
  };
}

const computeMean = (rates: readonly number[]): number =>
  rates.reduce((sum, rate) => sum + rate, 0) / rates.length;

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
