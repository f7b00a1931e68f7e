// `edgetier model quantise <in.onnx> -o <out.onnx> --mode dynamic|static`: an FP32 graph with its layers in 8-bit integers, and
// how far it is from the original.

import { cliErrors } from "../errors.ts";
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { defineCommand } from "citty";
import { readModelFile } from "../../toolchain/import/read-model-file.ts";
import { parseModel, serializeModel } from "../../toolchain/onnx/model-file.ts";
import { generateInputs } from "../../toolchain/passes/verify-outputs.ts";
import { type RangeMethod, RANGE_METHODS } from "../../toolchain/quantize/range-selection.ts";
import {
  type OutputDeviation,
  ReferenceOutputs,
} from "../../toolchain/quantize/output-deviation.ts";
import type { InputSamples } from "../../toolchain/quantize/capture-activations.ts";
import {
  createQuantizer,
  type QuantizedGraph,
  type QuantizeRequest,
} from "../../toolchain/quantize/quantizer.ts";
import { readInputSamples } from "../../toolchain/quantize/read-input-samples.ts";
import {
  searchFp32Layers,
  mostSensitiveLayers,
  rankLayers,
  type LayerSensitivity,
} from "../../toolchain/quantize/layer-sensitivity.ts";
import { reasonOf } from "../../core/errors.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { createProgressLine } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";

const NAME = "edgetier model quantise";

export const command = defineCommand({
  meta: {
    name: "quantise",
    description: "Make the layers of an FP32 graph 8-bit integers, and compare the two on the CPU",
  },
  args: {
    in: { type: "positional", description: "The ONNX file", required: true },
    out: {
      type: "string",
      alias: "o",
      valueHint: "file",
      description: "Where the quantised graph goes",
      required: true,
    },
    mode: {
      type: "enum",
      options: ["dynamic", "static"],
      default: "static",
      description: "dynamic needs no samples, and takes MatMul, Gemm and Gather only",
    },
    samples: {
      type: "string",
      valueHint: "path",
      description:
        'What static finds its ranges on, and the graphs are compared on: a file with one {"inputs": [{"name", "shape", "data"}]} a line, a folder with input_0.pb and so on, or a .npy array of the samples of a graph with one input',
    },
    "max-samples": {
      type: "string",
      valueHint: "number",
      default: "256",
      description: "How many of them",
    },
    calibration: {
      type: "enum",
      options: [...RANGE_METHODS],
      default: "minmax",
      description: "How static chooses ranges",
    },
    percentile: {
      type: "string",
      valueHint: "number",
      default: "99.99",
      description: "How many percent of an activation are in its range",
    },
    "per-channel": {
      type: "boolean",
      default: true,
      description: "A scale for each output channel of the weights (--no-per-channel: one for all)",
    },
    weights: {
      type: "enum",
      options: ["int8", "uint8"],
      default: "int8",
      description: "int8 is symmetric, uint8 affine",
    },
    activations: {
      type: "enum",
      options: ["uint8", "int8"],
      default: "uint8",
      description: "Of static",
    },
    symmetric: {
      type: "boolean",
      description: "Activations of static with their zero point in the middle",
    },
    "reduce-range": { type: "boolean", description: "7 bits a weight, for x86 without VNNI" },
    equalise: { type: "boolean", description: "Even out channels between layers first" },
    "correct-biases": {
      type: "boolean",
      description: "Take back the mean error of static's layers",
    },
    keep: {
      type: "string",
      valueHint: "name",
      description:
        "An operator, or a node by its name, that stays in FP32; may be given several times",
    },
    "keep-worst": {
      type: "string",
      valueHint: "number",
      description:
        "So many layers stay in FP32: those that hurt most alone. With --min-agreement, at most so many",
    },
    "min-agreement": {
      type: "string",
      valueHint: "share",
      description:
        "Layers stay in FP32, the worst first, until so many samples have the same argmax: 0.99",
    },
    sensitivity: { type: "boolean", description: "Show what each layer does alone" },
    ...jsonArg,
  },
  async run({ args, rawArgs }) {
    const maxSamples = parseNumber(args["max-samples"], "--max-samples", 1);
    const bound =
      args["min-agreement"] === undefined
        ? undefined
        : parseNumber(args["min-agreement"], "--min-agreement", 0, 1);
    const wanted =
      args["keep-worst"] === undefined
        ? undefined
        : parseNumber(args["keep-worst"], "--keep-worst", 0);
    const calibration = parseRangeMethod(args.calibration, args.percentile);
    if (args.samples === undefined && args.mode === "static")
      throw cliErrors.usage("--mode static needs --samples, to find ranges on", NAME);
    const { model } = await readModelFile(args.in);
    const before = serializeModel(model);
    const samples = await readSampleInputs(before, args.samples, maxSamples);
    const runtime = createNativeRuntime();
    const request: QuantizeRequest = {
      mode: args.mode,
      samples,
      rangeMethod: calibration,
      perChannel: args["per-channel"],
      weights: args.weights,
      activations: args.activations,
      symmetricActivations: args.symmetric,
      reduceRange: args["reduce-range"],
      equalize: args.equalise,
      correctBiases: args["correct-biases"],
      keep: parseKeepOption(rawArgs),
    };
    const progress = createProgressLine();
    const prepared = await createQuantizer(
      runtime,
      model,
      request,
      ({ kind: step, done, total: of = maxSamples }) => progress.show(step, done, of),
    );
    const reference = await ReferenceOutputs.record(runtime, before, samples);

    const isRanked = args.sensitivity === true || bound !== undefined || wanted !== undefined;
    const ranking = isRanked
      ? await rankLayers(
          runtime,
          parseModel(prepared.fp32Graph),
          prepared.quantizeSelected,
          samples,
          request,
          (done, of) => progress.show("sensitivity", done, of),
        )
      : [];
    const { quantised, differences, worst, holds } = await choose();
    progress.clear();

    await writeFile(args.out, quantised.graph).catch((error: unknown) => {
      throw cliErrors.usage(`${args.out} cannot be written: ${reasonOf(error)}`, NAME);
    });
    const { graph, kept, ...facts } = quantised;
    const reasons = kept.map((one) =>
      worst.includes(one.node) ? { ...one, reason: formatRankReason(one.node, ranking) } : one,
    );
    const result: Result = {
      out: args.out,
      bytesBefore: before.byteLength,
      bytesAfter: graph.byteLength,
      ...facts,
      kept: reasons,
      equalised: prepared.equalizedPairs,
      sensitivity: args.sensitivity === true ? ranking : [],
      comparedOn: args.samples === undefined ? "made-up inputs" : "samples",
      differences,
    };
    if (args.json) printJson(result);
    else printLine(summary(result));
    if (!holds)
      throw cliErrors.agreementMissed(minArgmaxAgreement(differences), bound ?? 0, worst.length);

    async function choose() {
      const make = async (worst: readonly string[]) => {
        const quantised = await prepared.quantize(worst);
        return { quantised, differences: await reference.compare(runtime, quantised.graph), worst };
      };
      if (bound === undefined)
        return { ...(await make(mostSensitiveLayers(ranking, wanted ?? 0))), holds: true };
      // All but one: a graph without integers is not what was asked for.
      const maxKept = Math.min(wanted ?? ranking.length, Math.max(0, ranking.length - 1));
      const found = await searchFp32Layers({
        ranking,
        maxFp32Layers: maxKept,
        evaluate: make,
        isAcceptable: ({ differences }) => minArgmaxAgreement(differences) >= bound,
        onEvaluation: (keep) => progress.show("layers in FP32", keep.length, maxKept),
      });
      return { ...found.evaluation, holds: found.isAcceptable };
    }
  },
});

interface Result extends Omit<QuantizedGraph, "graph"> {
  readonly out: string;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  readonly equalised: readonly unknown[];
  readonly sensitivity: readonly LayerSensitivity[];
  readonly comparedOn: string;
  readonly differences: readonly OutputDeviation[];
}

/** Made up where none are given. */
async function readSampleInputs(
  graph: Uint8Array,
  path: string | undefined,
  limit: number,
): Promise<InputSamples> {
  const session = await createNativeRuntime().createSession(graph);
  await session.dispose();
  return path === undefined
    ? generateInputs(session.inputs)
    : readInputSamples(path, session.inputs, limit);
}

const parseRangeMethod = (method: RangeMethod["kind"], percentile: string): RangeMethod =>
  method === "percentile"
    ? { kind: method, percentile: parseNumber(percentile, "--percentile", 50, 100) }
    : { kind: method };

function parseNumber(
  text: string,
  option: string,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): number {
  const number = Number(text);
  if (text.trim() === "" || !(number >= least && number <= most))
    throw cliErrors.usage(
      `${option} ${JSON.stringify(text)} is not a number from ${least}${most === Number.MAX_SAFE_INTEGER ? "" : ` to ${most}`}`,
      NAME,
    );
  return number;
}

/** citty takes an option once. */
function parseKeepOption(rawArgs: readonly string[]): string[] {
  const withValue = Object.fromEntries(
    [
      "mode",
      "samples",
      "max-samples",
      "calibration",
      "percentile",
      "weights",
      "activations",
      "keep-worst",
      "min-agreement",
    ].map((name) => [name, { type: "string" } as const]),
  );
  const { values } = parseArgs({
    args: [...rawArgs],
    options: {
      ...withValue,
      out: { type: "string", short: "o" },
      keep: { type: "string", multiple: true },
    },
    strict: false,
  });
  return [values["keep"] ?? []].flat().filter((one) => typeof one === "string");
}

const minArgmaxAgreement = (differences: readonly OutputDeviation[]): number =>
  Math.min(1, ...differences.flatMap(({ argmaxAgreement }) => argmaxAgreement ?? []));
const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
const formatDecibels = (ratio: number | null) => (ratio === null ? "-" : `${ratio.toFixed(1)} dB`);

function formatRankReason(node: string, ranking: readonly LayerSensitivity[]): string {
  const rank = ranking.findIndex((one) => one.node === node);
  return `no. ${rank + 1} in sensitivity: ${formatDecibels(ranking[rank]?.sqnrDb ?? null)} alone`;
}

function summary({
  out,
  bytesBefore,
  bytesAfter,
  layers,
  kept,
  activations,
  corrected,
  equalised,
  sensitivity,
  comparedOn,
  differences,
}: Result): string {
  const facts = [
    [
      "bytes",
      `${formatBytes(bytesBefore)} -> ${formatBytes(bytesAfter)}`,
      percent(bytesAfter / bytesBefore),
    ],
    ["layers in integers", layers.length, formatOpCounts(layers)],
    ["activations in integers", activations],
    ...(equalised.length === 0 ? [] : [["pairs of layers equalised", equalised.length]]),
    ...(corrected.length === 0 ? [] : [["biases corrected", corrected.length]]),
  ];
  const rows = differences.map((one) => [
    one.output,
    one.maxAbsolute.toPrecision(3),
    one.meanAbsolute.toPrecision(3),
    formatDecibels(one.sqnrDb),
    one.argmaxAgreement === null ? "-" : percent(one.argmaxAgreement),
  ]);
  return [
    renderTable(facts),
    `Against the original, on ${comparedOn}:\n${renderTable([["OUTPUT", "MAX DIFFERENCE", "MEAN", "SIGNAL TO NOISE", "SAME ARGMAX"], ...rows])}`,
    ...(sensitivity.length === 0
      ? []
      : [
          `Each layer alone, the worst first:\n${renderTable([["NODE", "OPERATOR", "SIGNAL TO NOISE", "SAME ARGMAX"], ...sensitivity.map((one) => [one.node, one.op, formatDecibels(one.sqnrDb), one.argmaxAgreement === null ? "-" : percent(one.argmaxAgreement)])])}`,
        ]),
    ...(kept.length === 0
      ? []
      : [
          `In FP32 still:\n${renderTable([["NODE", "OPERATOR", "WHY"], ...kept.map(({ node, op, reason }) => [node, op, reason])])}`,
        ]),
    `Written to ${out}`,
  ].join("\n\n");
}

const formatOpCounts = (layers: Result["layers"]): string =>
  [...Map.groupBy(layers, ({ op }) => op)].map(([op, those]) => `${those.length} ${op}`).join(", ");
