// `edgetier model prune <in.onnx> -o <out.onnx>`: removes channels from a graph or sets weights to 0, and measures savings and
// deviation. Above 300 lines because of the report's tables.

import { writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { type ArgsDef, defineCommand, type ParsedArgs } from "citty";
import { reasonOf } from "../../core/errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { toolchainErrors } from "../../toolchain/errors.ts";
import { readModelFile } from "../../toolchain/import/read-model-file.ts";
import { type Model, serializeModel } from "../../toolchain/onnx/model-file.ts";
import { generateInputs } from "../../toolchain/passes/verify-outputs.ts";
import { createFidelityScorer } from "../../toolchain/prune/fidelity-scorer.ts";
import { computeLayerCosts, type LayerCost } from "../../toolchain/prune/graph-cost.ts";
import { type ImportanceCriterion, IMPORTANCE_CRITERIA } from "../../toolchain/prune/importance.ts";
import { measureShapes, type TensorShapes } from "../../toolchain/prune/measure-shapes.ts";
import { planRatios, type PruningPlan } from "../../toolchain/prune/plan-ratios.ts";
import { type ChannelPruningReport, pruneChannels } from "../../toolchain/prune/prune-channels.ts";
import { pruneByMagnitude } from "../../toolchain/prune/prune-magnitude.ts";
import type { PruningRatios } from "../../toolchain/prune/ratios.ts";
import {
  createChannelTarget,
  type ModelScorer,
  createMagnitudeTarget,
  measureSensitivity,
  type PruningSensitivity,
  type PruningTarget,
} from "../../toolchain/prune/sensitivity.ts";
import type { InputSamples } from "../../toolchain/quantize/capture-activations.ts";
import {
  type OutputDeviation,
  ReferenceOutputs,
} from "../../toolchain/quantize/output-deviation.ts";
import { readInputSamples } from "../../toolchain/quantize/read-input-samples.ts";
import { cliErrors } from "../errors.ts";
import { createProgressLine } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { parseCount } from "./samples-args.ts";

const NAME = "edgetier model prune";

const pruneArgs = {
  in: { type: "positional", description: "ONNX file in FP32", required: true },
  out: {
    type: "string",
    alias: "o",
    valueHint: "file",
    description: "Output file",
    required: true,
  },
  method: {
    type: "enum",
    options: ["channel", "magnitude"],
    default: "channel",
    description:
      "`channel` removes whole channels; `magnitude` sets single weights to 0, which only saves compressed bytes",
  },
  ratio: {
    type: "string",
    valueHint: "share",
    description: "Share to prune of each group of channels, or of each layer's weights",
  },
  global: {
    type: "boolean",
    description: "Apply --ratio to the whole graph, so that the least important layers lose most",
  },
  importance: {
    type: "enum",
    options: [...IMPORTANCE_CRITERIA],
    default: "l1",
    description: "Ranking of channels: a norm of their filters, or BatchNormalization's scale",
  },
  multiple: {
    type: "string",
    default: "8",
    valueHint: "n",
    description: "Number whose multiple of channels every group keeps",
  },
  sensitivity: { type: "boolean", description: "Show the effect of pruning each part alone" },
  budget: {
    type: "string",
    valueHint: "share",
    description:
      "Share of the graph's cost to keep; replaces --ratio, and derives the ratios from the sensitivities",
  },
  cost: {
    type: "enum",
    options: ["macs", "bytes"],
    default: "macs",
    description:
      "Cost that the budget limits; with `magnitude`, it is the number of nonzero weights",
  },
  samples: {
    type: "string",
    valueHint: "path",
    description:
      'Samples for sensitivities and deviations: a file with one {"inputs": [{"name", "shape", "data"}]} per line, a folder with input_0.pb and so on, or a .npy array of samples for a graph with one input; by default generated',
  },
  "max-samples": {
    type: "string",
    valueHint: "n",
    default: "256",
    description: "Maximum number of samples",
  },
  ...jsonArg,
} as const satisfies ArgsDef;

type PruneArgs = ParsedArgs<typeof pruneArgs>;

export const command = defineCommand({
  meta: {
    name: "prune",
    description:
      "Remove channels from a graph or set weights to 0, and measure savings and deviation",
  },
  args: pruneArgs,
  async run({ args }) {
    const { ratio, budget, multiple, maxSamples } = parsePruneArgs(args);
    const { model } = await readModelFile(args.in);
    const before = serializeModel(model);
    const runtime = createNativeRuntime();
    const specs = await readInputSpecs(runtime, before);
    const samples =
      args.samples === undefined
        ? generateInputs(specs)
        : readInputSamples(args.samples, specs, maxSamples);
    const shapes = await measureShapesOnSample(samples, runtime, model);
    const options = { importance: args.importance satisfies ImportanceCriterion, multiple };
    const costBefore = computeLayerCosts(model, shapes);
    const target =
      args.method === "channel"
        ? createChannelTarget(before, shapes, args.cost, options)
        : createMagnitudeTarget(before);
    const needsSensitivity = args.sensitivity === true || budget !== undefined;
    const sensitivity = needsSensitivity
      ? await measureSensitivityWithProgress(
          target,
          await createFidelityScorer(runtime, before, samples),
        )
      : null;
    const plan =
      sensitivity === null || budget === undefined
        ? null
        : planRatios(target, sensitivity, budget * target.computeCost(0));
    const scope = toScope(plan?.ratios ?? ratio ?? 0, args.global === true);
    const pruned =
      args.method === "channel" ? pruneChannels(model, shapes, { ...options, ...scope }) : null;
    if (pruned === null) pruneByMagnitude(model, scope);

    const after = serializeModel(model);
    await writeFile(args.out, after).catch((error: unknown) => {
      throw cliErrors.usage(`Cannot write ${args.out}: ${reasonOf(error)}`, NAME);
    });
    const result: Result = {
      out: args.out,
      method: args.method,
      ...measureSizes(before, after),
      layers: pairLayers(costBefore, computeLayerCosts(model, pruned?.shapes ?? shapes)),
      groups: pruned?.groups ?? [],
      leftAlone: pruned?.unprunable ?? [],
      sensitivity,
      plan: plan && { ...plan, ratios: Object.fromEntries(plan.ratios) },
      comparedOn: args.samples === undefined ? "made-up inputs" : "samples",
      differences: await compareOutputs(runtime, before, after, samples),
    };
    if (args.json) printJson(result);
    else printLine(summary(result));
  },
});

/** @throws usage */
function parsePruneArgs(args: PruneArgs) {
  const ratio = parseRatio("--ratio", args.ratio);
  const budget = parseRatio("--budget", args.budget);
  if ((ratio === undefined) === (budget === undefined))
    throw cliErrors.usage(
      "The amount is missing or ambiguous; pass either --ratio or --budget",
      NAME,
    );
  if (args.global && ratio === undefined)
    throw cliErrors.usage("--global applies only to --ratio; pass --ratio or omit --global", NAME);
  return {
    ratio,
    budget,
    multiple: parseCount("--multiple", args.multiple, NAME),
    maxSamples: parseCount("--max-samples", args["max-samples"], NAME),
  };
}

const toScope = (ratios: PruningRatios, isGlobal: boolean) =>
  isGlobal && typeof ratios === "number"
    ? ({ scope: "model", ratio: ratios } as const)
    : { ratio: ratios };

function parseRatio(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const share = value.trim() === "" ? Number.NaN : Number(value);
  if (!(share >= 0 && share < 1))
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(value)}; expected a number of at least 0 and below 1`,
      NAME,
    );
  return share;
}

async function readInputSpecs(runtime: Runtime, bytes: Uint8Array): Promise<readonly TensorSpec[]> {
  const session = await runtime.createSession(bytes);
  const { inputs } = session;
  await session.dispose();
  return inputs;
}

/** Measures the tensor shapes on the first sample. @throws not_comparable if the graph rejects it */
async function measureShapesOnSample(
  samples: InputSamples,
  runtime: Runtime,
  model: Model,
): Promise<TensorShapes> {
  for await (const sample of samples) {
    return await measureShapes(runtime, model, sample).catch((error: unknown) => {
      throw toolchainErrors.notComparable(reasonOf(error), error);
    });
  }
  return new Map();
}

async function measureSensitivityWithProgress(
  target: PruningTarget,
  scorer: ModelScorer,
): Promise<PruningSensitivity> {
  const progress = createProgressLine();
  const sensitivity = await measureSensitivity(target, scorer, {
    onProgress: (done, total) => progress.show("sensitivity", done, total),
  });
  progress.clear();
  return sensitivity;
}

interface Result extends Pick<ChannelPruningReport, "groups">, FileSizes {
  readonly out: string;
  readonly leftAlone: ChannelPruningReport["unprunable"];
  readonly method: "channel" | "magnitude";
  readonly layers: readonly LayerChange[];
  readonly sensitivity: PruningSensitivity | null;
  /** Deviation of each output from the original's. */
  readonly differences: readonly OutputDeviation[];
  readonly comparedOn: "made-up inputs" | "samples";
  readonly plan:
    | (Omit<PruningPlan, "ratios"> & { readonly ratios: Readonly<Record<string, number>> })
    | null;
}

interface FileSizes {
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  readonly gzipBytesBefore: number;
  readonly gzipBytesAfter: number;
}

function measureSizes(before: Uint8Array, after: Uint8Array): FileSizes {
  const gzipBytesOf = (bytes: Uint8Array) => gzipSync(bytes, { level: 9 }).byteLength;
  return {
    bytesBefore: before.byteLength,
    bytesAfter: after.byteLength,
    gzipBytesBefore: gzipBytesOf(before),
    gzipBytesAfter: gzipBytesOf(after),
  };
}

interface LayerChange {
  readonly layer: string;
  readonly op: string;
  readonly before: LayerMetrics;
  readonly after: LayerMetrics;
}

type LayerMetrics = Omit<LayerCost, "layer" | "op">;

/** Pairs layers by position, because pruning removes no layer. */
function pairLayers(before: readonly LayerCost[], after: readonly LayerCost[]): LayerChange[] {
  return before.flatMap(({ layer, op, ...figures }, position) => {
    const {
      layer: _layer,
      op: _op,
      ...figuresAfter
    } = after[position] ?? { layer, op, ...figures };
    return [{ layer, op, before: figures, after: figuresAfter }];
  });
}

async function compareOutputs(
  runtime: Runtime,
  before: Uint8Array,
  after: Uint8Array,
  samples: InputSamples,
): Promise<OutputDeviation[]> {
  const reference = await ReferenceOutputs.record(runtime, before, samples);
  return await reference.compare(runtime, after);
}

const percent = (part: number, whole: number): string =>
  whole === 0 ? "-" : `${((100 * part) / whole).toFixed(1)} %`;
const change = (before: number | null, after: number | null): string =>
  before === after ? String(before ?? "-") : `${before} -> ${after}`;

function summary(result: Result): string {
  const { method, layers, groups, leftAlone: unpruned, sensitivity, plan } = result;
  return [
    layerTable(layers),
    renderTable([
      [
        "file",
        `${formatBytes(result.bytesBefore)} -> ${formatBytes(result.bytesAfter)}`,
        percent(result.bytesAfter, result.bytesBefore),
      ],
      [
        "gzip",
        `${formatBytes(result.gzipBytesBefore)} -> ${formatBytes(result.gzipBytesAfter)}`,
        percent(result.gzipBytesAfter, result.gzipBytesBefore),
      ],
    ]),
    ...(method === "magnitude"
      ? [
          "Zeros save bytes only in compressed transfers. ONNX Runtime has no sparse kernels, so they save no time.",
        ]
      : []),
    ...(groups.length === 0
      ? []
      : [
          `Channels removed together:\n${renderTable([["GROUP", "CHANNELS", "REMOVED", "LAYERS"], ...groups.map((group) => [group.name, group.channels, group.removed, group.layers.join(", ")])])}`,
        ]),
    ...(unpruned.length === 0
      ? []
      : [
          `Layers not pruned:\n${renderTable([["LAYER", "OPERATOR", "CHANNELS", "REASON"], ...unpruned.map(({ layer, op, channels, reason }) => [layer, op, channels, reason])])}`,
        ]),
    ...(sensitivity === null ? [] : [sensitivityTable(sensitivity)]),
    ...(plan === null
      ? []
      : [
          `Planned ratios, with an expected loss of ${plan.expectedLoss.toFixed(4)}:\n${renderTable(Object.entries(plan.ratios).map(([part, ratio]) => [part, ratio]))}`,
        ]),
    differenceTable(result),
    `Written to ${result.out}`,
  ].join("\n\n");
}

function layerTable(layers: readonly LayerChange[]): string {
  const [shown, others] = [
    layers.filter(({ before }) => before.macs !== 0),
    layers.filter(({ before }) => before.macs === 0),
  ];
  const rows = shown.map(({ layer, op, before, after }) => [layer, op, ...cells(before, after)]);
  if (others.length > 0)
    rows.push([
      `${others.length} others`,
      "",
      ...cells(
        sumMetrics(others.map((layer) => layer.before)),
        sumMetrics(others.map((layer) => layer.after)),
      ),
    ]);
  const [before, after] = [
    sumMetrics(layers.map((layer) => layer.before)),
    sumMetrics(layers.map((layer) => layer.after)),
  ];
  const kept = [
    percent(after.parameters, before.parameters),
    percent(after.macs ?? 0, before.macs ?? 0),
    percent(after.bytes, before.bytes),
  ];
  return renderTable([
    ["LAYER", "OPERATOR", "PARAMETERS", "MACS", "BYTES", "ZEROS"],
    ...rows,
    ["all", "", ...cells(before, after)],
    ["kept", "", ...kept],
  ]);
}

const cells = (before: LayerMetrics, after: LayerMetrics): string[] => [
  change(before.parameters, after.parameters),
  change(before.macs, after.macs),
  change(before.bytes, after.bytes),
  percent(after.zeros, after.parameters),
];

function sumMetrics(all: readonly LayerMetrics[]): LayerMetrics {
  const sum = (metric: (metrics: LayerMetrics) => number) =>
    all.reduce((total, metrics) => total + metric(metrics), 0);
  return {
    parameters: sum(({ parameters }) => parameters),
    bytes: sum(({ bytes }) => bytes),
    macs: sum(({ macs }) => macs ?? 0),
    zeros: sum(({ zeros }) => zeros),
  };
}

function sensitivityTable({ score, parts }: PruningSensitivity): string {
  const ratios = parts[0]?.points.map(({ ratio }) => percent(ratio, 1)) ?? [];
  const rows = parts.map(({ part, points }) => [
    part,
    ...points.map(({ loss }) => loss.toFixed(4)),
  ]);
  return `Loss of the score ${score.toFixed(4)} if one part is pruned, by ratio:\n${renderTable([["PART", ...ratios], ...rows])}`;
}

function differenceTable({ differences, comparedOn }: Result): string {
  const rows = differences.map(({ output, maxAbsolute, meanAbsolute, sqnrDb, argmaxAgreement }) => [
    output,
    maxAbsolute.toPrecision(3),
    meanAbsolute.toPrecision(3),
    sqnrDb === null ? "-" : sqnrDb.toFixed(1),
    argmaxAgreement === null ? "-" : percent(argmaxAgreement, 1),
  ]);
  return `Against the original, on ${comparedOn === "samples" ? comparedOn : "generated inputs"}:\n${renderTable([["OUTPUT", "MAX DIFFERENCE", "MEAN", "SQNR DB", "SAME ARGMAX"], ...rows])}`;
}
