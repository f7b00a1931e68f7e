// `edgetier model quantize <in.onnx> -o <out.onnx> --mode dynamic|static`: quantizes the layers of an FP32 graph to 8-bit
// integers, and measures the deviation. Above 300 lines because of its 17 options.

import { writeFile } from "node:fs/promises";
import { type ArgsDef, defineCommand, type ParsedArgs } from "citty";
import { reasonOf } from "../../core/errors.ts";
import { createNativeRuntime, type NativeRuntime } from "../../runtime/native/native-runtime.ts";
import { readModelFile } from "../../toolchain/import/read-model-file.ts";
import { parseModel, serializeModel } from "../../toolchain/onnx/model-file.ts";
import { generateInputs } from "../../toolchain/passes/verify-outputs.ts";
import type { InputSamples } from "../../toolchain/quantize/capture-activations.ts";
import {
  searchFp32Layers,
  mostSensitiveLayers,
  rankLayers,
  type LayerSensitivity,
} from "../../toolchain/quantize/layer-sensitivity.ts";
import {
  type OutputDeviation,
  ReferenceOutputs,
} from "../../toolchain/quantize/output-deviation.ts";
import {
  createQuantizer,
  type QuantizedGraph,
  type QuantizeRequest,
} from "../../toolchain/quantize/quantizer.ts";
import { type RangeMethod, RANGE_METHODS } from "../../toolchain/quantize/range-selection.ts";
import { readInputSamples } from "../../toolchain/quantize/read-input-samples.ts";
import { cliErrors } from "../errors.ts";
import { createProgressLine } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { parseRepeatedOption } from "../repeated-option.ts";

const NAME = "edgetier model quantize";

const quantizeArgs = {
  in: { type: "positional", description: "ONNX file", required: true },
  out: {
    type: "string",
    alias: "o",
    valueHint: "file",
    description: "Output file",
    required: true,
  },
  mode: {
    type: "enum",
    options: ["dynamic", "static"],
    default: "static",
    description: "dynamic needs no samples, and quantizes only MatMul, Gemm and Gather",
  },
  samples: {
    type: "string",
    valueHint: "path",
    description:
      'Samples for static ranges and for the comparison: a file with one {"inputs": [{"name", "shape", "data"}]} per line, a folder with input_0.pb and so on, or a .npy array of samples for a graph with one input',
  },
  "max-samples": {
    type: "string",
    valueHint: "number",
    default: "256",
    description: "Maximum number of samples",
  },
  "range-method": {
    type: "enum",
    options: [...RANGE_METHODS],
    default: "minmax",
    description: "Method that chooses static ranges",
  },
  percentile: {
    type: "string",
    valueHint: "number",
    default: "99.99",
    description: "Percentage of an activation's values inside its range",
  },
  "per-channel": {
    type: "boolean",
    default: true,
    description: "One scale per output channel of the weights (--no-per-channel: one per tensor)",
  },
  weights: {
    type: "enum",
    options: ["int8", "uint8"],
    default: "int8",
    description: "Datatype of weights: int8 is symmetric, uint8 affine",
  },
  activations: {
    type: "enum",
    options: ["uint8", "int8"],
    default: "uint8",
    description: "Datatype of static activations",
  },
  symmetric: {
    type: "boolean",
    description: "Symmetric static activations, with a centered zero point",
  },
  "reduce-range": { type: "boolean", description: "Use 7 bits per weight, for x86 without VNNI" },
  equalize: { type: "boolean", description: "Equalize channels across layers first" },
  "correct-biases": {
    type: "boolean",
    description: "Correct the mean error of static layers in their biases",
  },
  keep: {
    type: "string",
    valueHint: "name",
    description: "Operator or node name to keep in FP32; repeatable",
  },
  "keep-worst": {
    type: "string",
    valueHint: "number",
    description:
      "Number of most sensitive layers to keep in FP32; with --min-agreement, their maximum number",
  },
  "min-agreement": {
    type: "string",
    valueHint: "share",
    description:
      "Minimum argmax agreement with the original, such as 0.99; keeps the most sensitive layers in FP32 until it is reached",
  },
  sensitivity: { type: "boolean", description: "Show the effect of quantizing each layer alone" },
  ...jsonArg,
} as const satisfies ArgsDef;

type QuantizeArgs = ParsedArgs<typeof quantizeArgs>;

export const command = defineCommand({
  meta: {
    name: "quantize",
    description:
      "Quantize the layers of an FP32 graph to 8-bit integers, and compare both on the CPU",
  },
  args: quantizeArgs,
  async run({ args, rawArgs }) {
    const maxSamples = parseNumber(args["max-samples"], "--max-samples", 1);
    const target = parseFp32Target(args);
    const rangeMethod = parseRangeMethod(args["range-method"], args.percentile);
    if (args.samples === undefined && args.mode === "static")
      throw cliErrors.usage("--mode static needs samples for its ranges; pass --samples", NAME);
    const { model } = await readModelFile(args.in);
    const before = serializeModel(model);
    const samples = await readSampleInputs(before, args.samples, maxSamples);
    const keep = parseRepeatedOption(quantizeArgs, rawArgs, "keep");
    const request = toRequest(args, { samples, rangeMethod, keep });
    const runtime = createNativeRuntime();
    const progress = createProgressLine();
    const quantizer = await createQuantizer(
      runtime,
      model,
      request,
      ({ kind, done, total = maxSamples }) => progress.show(kind, done, total),
    );
    const reference = await ReferenceOutputs.record(runtime, before, samples);
    const ranking = needsRanking(args)
      ? await rankLayers(
          runtime,
          parseModel(quantizer.fp32Graph),
          quantizer.quantizeSelected,
          samples,
          request,
          (done, total) => progress.show("sensitivity", done, total),
        )
      : [];
    const { quantized, differences, fp32Layers, isAcceptable } = await selectFp32Layers(
      { quantizer, runtime, reference, ranking, showProgress: progress.show },
      target,
    );
    progress.clear();

    await writeFile(args.out, quantized.graph).catch((error: unknown) => {
      throw cliErrors.usage(`Cannot write ${args.out}: ${reasonOf(error)}`, NAME);
    });
    const { graph, kept, ...facts } = quantized;
    const result: Result = {
      out: args.out,
      bytesBefore: before.byteLength,
      bytesAfter: graph.byteLength,
      ...facts,
      kept: explainKept(kept, fp32Layers, ranking),
      equalised: quantizer.equalizedPairs,
      sensitivity: args.sensitivity === true ? ranking : [],
      comparedOn: args.samples === undefined ? "made-up inputs" : "samples",
      differences,
    };
    if (args.json) printJson(result);
    else printLine(summary(result));
    if (!isAcceptable)
      throw cliErrors.agreementMissed(
        minArgmaxAgreement(differences),
        target.minAgreement ?? 0,
        fp32Layers.length,
      );
  },
});

const needsRanking = (args: QuantizeArgs): boolean =>
  args.sensitivity === true ||
  args["min-agreement"] !== undefined ||
  args["keep-worst"] !== undefined;

/** Limits for the layers that stay in FP32 because of their sensitivity. */
interface Fp32Target {
  readonly minAgreement: number | undefined;
  readonly fp32Layers: number | undefined;
}

/** @throws usage */
const parseFp32Target = (args: QuantizeArgs): Fp32Target => ({
  minAgreement:
    args["min-agreement"] === undefined
      ? undefined
      : parseNumber(args["min-agreement"], "--min-agreement", 0, 1),
  fp32Layers:
    args["keep-worst"] === undefined
      ? undefined
      : parseNumber(args["keep-worst"], "--keep-worst", 0),
});

const toRequest = (
  args: QuantizeArgs,
  parsed: Pick<QuantizeRequest, "samples" | "rangeMethod" | "keep">,
): QuantizeRequest => ({
  mode: args.mode,
  ...parsed,
  perChannel: args["per-channel"],
  weights: args.weights,
  activations: args.activations,
  symmetricActivations: args.symmetric,
  reduceRange: args["reduce-range"],
  equalize: args.equalize,
  correctBiases: args["correct-biases"],
});

interface SelectionContext {
  readonly quantizer: Awaited<ReturnType<typeof createQuantizer>>;
  readonly runtime: NativeRuntime;
  readonly reference: ReferenceOutputs;
  readonly ranking: readonly LayerSensitivity[];
  readonly showProgress: (activity: string, done: number, total: number) => void;
}

interface SelectedQuantization {
  readonly quantized: QuantizedGraph;
  readonly differences: readonly OutputDeviation[];
  readonly fp32Layers: readonly string[];
  readonly isAcceptable: boolean;
}

/** Quantizes with the most sensitive layers in FP32: a fixed number, or as many as the agreement needs. */
async function selectFp32Layers(
  { quantizer, runtime, reference, ranking, showProgress }: SelectionContext,
  { minAgreement, fp32Layers: maxLayers }: Fp32Target,
): Promise<SelectedQuantization> {
  const quantize = async (fp32Layers: readonly string[]) => {
    const quantized = await quantizer.quantize(fp32Layers);
    const differences = await reference.compare(runtime, quantized.graph);
    return { quantized, differences, fp32Layers };
  };
  if (minAgreement === undefined)
    return {
      ...(await quantize(mostSensitiveLayers(ranking, maxLayers ?? 0))),
      isAcceptable: true,
    };
  // At least one layer is quantized, because the user asked for a quantized graph.
  const maxFp32Layers = Math.min(maxLayers ?? ranking.length, Math.max(0, ranking.length - 1));
  const { evaluation, isAcceptable } = await searchFp32Layers({
    ranking,
    maxFp32Layers,
    evaluate: quantize,
    isAcceptable: ({ differences }) => minArgmaxAgreement(differences) >= minAgreement,
    onEvaluation: (layers) => showProgress("layers in FP32", layers.length, maxFp32Layers),
  });
  return { ...evaluation, isAcceptable };
}

interface Result extends Omit<QuantizedGraph, "graph"> {
  readonly out: string;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  readonly equalised: readonly unknown[];
  readonly sensitivity: readonly LayerSensitivity[];
  readonly comparedOn: string;
  readonly differences: readonly OutputDeviation[];
}

/** Reads the samples; without a path, generates inputs. */
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
  min: number,
  max = Number.MAX_SAFE_INTEGER,
): number {
  const number = Number(text);
  if (text.trim() === "" || !(number >= min && number <= max))
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(text)}; expected a number ${max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`}`,
      NAME,
    );
  return number;
}

const minArgmaxAgreement = (differences: readonly OutputDeviation[]): number =>
  Math.min(1, ...differences.flatMap(({ argmaxAgreement }) => argmaxAgreement ?? []));
const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
const formatDecibels = (ratio: number | null) => (ratio === null ? "-" : `${ratio.toFixed(1)} dB`);

/** Adds the sensitivity rank to layers that are kept because of it. */
const explainKept = (
  kept: QuantizedGraph["kept"],
  fp32Layers: readonly string[],
  ranking: readonly LayerSensitivity[],
): QuantizedGraph["kept"] =>
  kept.map((layer) =>
    fp32Layers.includes(layer.node)
      ? { ...layer, reason: formatRankReason(layer.node, ranking) }
      : layer,
  );

function formatRankReason(node: string, ranking: readonly LayerSensitivity[]): string {
  const rank = ranking.findIndex((layer) => layer.node === node);
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
  equalised: equalizedPairs,
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
    ...(equalizedPairs.length === 0 ? [] : [["pairs of layers equalized", equalizedPairs.length]]),
    ...(corrected.length === 0 ? [] : [["biases corrected", corrected.length]]),
  ];
  const formatAgreement = (agreement: number | null) =>
    agreement === null ? "-" : percent(agreement);
  const rows = differences.map(({ output, maxAbsolute, meanAbsolute, sqnrDb, argmaxAgreement }) => [
    output,
    maxAbsolute.toPrecision(3),
    meanAbsolute.toPrecision(3),
    formatDecibels(sqnrDb),
    formatAgreement(argmaxAgreement),
  ]);
  return [
    renderTable(facts),
    `Against the original, on ${comparedOn === "samples" ? comparedOn : "generated inputs"}:\n${renderTable([["OUTPUT", "MAX DIFFERENCE", "MEAN", "SIGNAL TO NOISE", "SAME ARGMAX"], ...rows])}`,
    ...(sensitivity.length === 0
      ? []
      : [
          `Each layer quantized alone, most sensitive first:\n${renderTable([["NODE", "OPERATOR", "SIGNAL TO NOISE", "SAME ARGMAX"], ...sensitivity.map(({ node, op, sqnrDb, argmaxAgreement }) => [node, op, formatDecibels(sqnrDb), formatAgreement(argmaxAgreement)])])}`,
        ]),
    ...(kept.length === 0
      ? []
      : [
          `Kept in FP32:\n${renderTable([["NODE", "OPERATOR", "REASON"], ...kept.map(({ node, op, reason }) => [node, op, reason])])}`,
        ]),
    `Written to ${out}`,
  ].join("\n\n");
}

const formatOpCounts = (layers: Result["layers"]): string =>
  [...Map.groupBy(layers, ({ op }) => op)]
    .map(([op, sameOp]) => `${sameOp.length} ${op}`)
    .join(", ");
