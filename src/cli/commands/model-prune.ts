// `edgetier model prune <in.onnx> -o <out.onnx>`: a graph with fewer channels, or with weights that are 0, and what that
// saves and changes.

import { cliErrors } from "../errors.ts";
import { toolchainErrors } from "../../toolchain/errors.ts";
import { writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { defineCommand } from "citty";
import { readModelFile } from "../../toolchain/import/read-model-file.ts";
import { type Model, serializeModel } from "../../toolchain/onnx/model-file.ts";
import { generateInputs } from "../../toolchain/passes/verify-outputs.ts";
import { type ChannelPruningReport, pruneChannels } from "../../toolchain/prune/prune-channels.ts";
import { computeLayerCosts, type LayerCost } from "../../toolchain/prune/graph-cost.ts";
import { type ImportanceCriterion, IMPORTANCE_CRITERIA } from "../../toolchain/prune/importance.ts";
import { createFidelityScorer } from "../../toolchain/prune/fidelity-scorer.ts";
import { pruneByMagnitude } from "../../toolchain/prune/prune-magnitude.ts";
import { planRatios, type PruningPlan } from "../../toolchain/prune/plan-ratios.ts";
import type { PruningRatios } from "../../toolchain/prune/ratios.ts";
import {
  createChannelTarget,
  type ModelScorer,
  createMagnitudeTarget,
  measureSensitivity,
  type PruningSensitivity,
  type PruningTarget,
} from "../../toolchain/prune/sensitivity.ts";
import { measureShapes, type TensorShapes } from "../../toolchain/prune/measure-shapes.ts";
import {
  type OutputDeviation,
  ReferenceOutputs,
} from "../../toolchain/quantize/output-deviation.ts";
import type { InputSamples } from "../../toolchain/quantize/capture-activations.ts";
import { readInputSamples } from "../../toolchain/quantize/read-input-samples.ts";
import { reasonOf } from "../../core/errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { createProgressLine } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { parseCount } from "./samples-args.ts";

const NAME = "edgetier model prune";

export const command = defineCommand({
  meta: {
    name: "prune",
    description:
      "Take channels out of a graph, or set weights to 0, and tell what that saves and changes",
  },
  args: {
    in: { type: "positional", description: "The ONNX file, in FP32", required: true },
    out: {
      type: "string",
      alias: "o",
      valueHint: "file",
      description: "Where the pruned graph goes",
      required: true,
    },
    method: {
      type: "enum",
      options: ["channel", "magnitude"],
      default: "channel",
      description:
        "`channel` takes whole channels out; `magnitude` sets single weights to 0, which saves bytes on the wire only",
    },
    ratio: {
      type: "string",
      valueHint: "share",
      description: "The share to prune of each group of channels, or of each layer's weights",
    },
    global: {
      type: "boolean",
      description: "The share is of the whole graph: those layers lose most that matter least",
    },
    importance: {
      type: "enum",
      options: [...IMPORTANCE_CRITERIA],
      default: "l1",
      description:
        "What channels are ranked by: a norm of their filters, or BatchNormalization's scale",
    },
    multiple: {
      type: "string",
      default: "8",
      valueHint: "n",
      description: "What is left of a group of channels is a multiple of it",
    },
    sensitivity: { type: "boolean", description: "Tell how each part minds being pruned alone" },
    budget: {
      type: "string",
      valueHint: "share",
      description:
        "In place of --ratio: what may be left of the graph's cost; the ratios follow from the sensitivities",
    },
    cost: {
      type: "enum",
      options: ["macs", "bytes"],
      default: "macs",
      description: "What the budget is of; with `magnitude`, it is of the weights that are not 0",
    },
    samples: {
      type: "string",
      valueHint: "path",
      description:
        'What sensitivities and differences are measured on: a file with one {"inputs": [{"name", "shape", "data"}]} a line, a folder with input_0.pb and so on, or a .npy array of the samples of a graph with one input; made-up inputs otherwise',
    },
    "max-samples": {
      type: "string",
      valueHint: "n",
      default: "256",
      description: "How many of them",
    },
    ...jsonArg,
  },
  async run({ args }) {
    const [ratio, budget] = [
      parseRatio("--ratio", args.ratio),
      parseRatio("--budget", args.budget),
    ];
    const [multiple = 1, most] = [
      parseCount("--multiple", args.multiple, NAME),
      parseCount("--max-samples", args["max-samples"], NAME),
    ];
    if ((ratio === undefined) === (budget === undefined))
      throw cliErrors.usage("Give --ratio or --budget", NAME);
    if (args.global && ratio === undefined) throw cliErrors.usage("--global takes a --ratio", NAME);
    const { model } = await readModelFile(args.in);
    const before = serializeModel(model);
    const runtime = createNativeRuntime();
    const specs = await readInputSpecs(runtime, before);
    const samples =
      args.samples === undefined
        ? generateInputs(specs)
        : readInputSamples(args.samples, specs, most);
    const shapes = await measureShapesOnSample(samples, runtime, model);
    const options = { importance: args.importance satisfies ImportanceCriterion, multiple };
    const costBefore = computeLayerCosts(model, shapes);

    const subject =
      args.method === "channel"
        ? createChannelTarget(before, shapes, args.cost, options)
        : createMagnitudeTarget(before);
    const sensitivity =
      args.sensitivity || budget !== undefined
        ? await measureSensitivityWithProgress(
            subject,
            await createFidelityScorer(runtime, before, samples),
          )
        : null;
    const plan =
      sensitivity === null || budget === undefined
        ? null
        : planRatios(subject, sensitivity, budget * subject.computeCost(0));
    const ratios: PruningRatios = plan?.ratios ?? ratio ?? 0;
    const scope =
      args.global && typeof ratios === "number"
        ? ({ scope: "model", ratio: ratios } as const)
        : { ratio: ratios };
    const pruned =
      args.method === "channel" ? pruneChannels(model, shapes, { ...options, ...scope }) : null;
    if (pruned === null) pruneByMagnitude(model, scope);

    const after = serializeModel(model);
    await writeFile(args.out, after).catch((error: unknown) => {
      throw cliErrors.usage(`${args.out} cannot be written: ${reasonOf(error)}`, NAME);
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

function parseRatio(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const share = value.trim() === "" ? Number.NaN : Number(value);
  if (!(share >= 0 && share < 1))
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(value)}, and must be from 0 to below 1`,
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

/** Of the first sample. @throws not_comparable if the graph does not run on it */
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
  subject: PruningTarget,
  judge: ModelScorer,
): Promise<PruningSensitivity> {
  const progress = createProgressLine();
  const sensitivity = await measureSensitivity(subject, judge, {
    onProgress: (done, of) => progress.show("sensitivity", done, of),
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
  /** Of the outputs from the original's. */
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
  const zipped = (bytes: Uint8Array) => gzipSync(bytes, { level: 9 }).byteLength;
  return {
    bytesBefore: before.byteLength,
    bytesAfter: after.byteLength,
    gzipBytesBefore: zipped(before),
    gzipBytesAfter: zipped(after),
  };
}

/** A layer before and after. */
interface LayerChange {
  readonly layer: string;
  readonly op: string;
  readonly before: LayerMetrics;
  readonly after: LayerMetrics;
}

type LayerMetrics = Omit<LayerCost, "layer" | "op">;

/** Pruning takes no layer away. */
function pairLayers(before: readonly LayerCost[], after: readonly LayerCost[]): LayerChange[] {
  return before.flatMap(({ layer, op, ...figures }, position) => {
    const { layer: _layer, op: _op, ...others } = after[position] ?? { layer, op, ...figures };
    return [{ layer, op, before: figures, after: others }];
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
  const { method, layers, groups, leftAlone, sensitivity, plan } = result;
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
          "Zeros save bytes where the file is compressed on its way. ONNX Runtime computes with them all the same: it has no sparse kernels.",
        ]
      : []),
    ...(groups.length === 0
      ? []
      : [
          `Channels that are removed together:\n${renderTable([["GROUP", "CHANNELS", "REMOVED", "LAYERS"], ...groups.map((one) => [one.name, one.channels, one.removed, one.layers.join(", ")])])}`,
        ]),
    ...(leftAlone.length === 0
      ? []
      : [
          `Layers left alone:\n${renderTable([["LAYER", "OPERATOR", "CHANNELS", "BECAUSE"], ...leftAlone.map((one) => [one.layer, one.op, one.channels, one.reason])])}`,
        ]),
    ...(sensitivity === null ? [] : [sensitivityTable(sensitivity)]),
    ...(plan === null
      ? []
      : [
          `Planned, at an expected loss of ${plan.expectedLoss.toFixed(4)}:\n${renderTable(Object.entries(plan.ratios).map(([part, ratio]) => [part, ratio]))}`,
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
        sumMetrics(others.map((one) => one.before)),
        sumMetrics(others.map((one) => one.after)),
      ),
    ]);
  const [before, after] = [
    sumMetrics(layers.map((one) => one.before)),
    sumMetrics(layers.map((one) => one.after)),
  ];
  const left = [
    percent(after.parameters, before.parameters),
    percent(after.macs ?? 0, before.macs ?? 0),
    percent(after.bytes, before.bytes),
  ];
  return renderTable([
    ["LAYER", "OPERATOR", "PARAMETERS", "MACS", "BYTES", "ZEROS"],
    ...rows,
    ["all", "", ...cells(before, after)],
    ["left", "", ...left],
  ]);
}

const cells = (before: LayerMetrics, after: LayerMetrics): string[] => [
  change(before.parameters, after.parameters),
  change(before.macs, after.macs),
  change(before.bytes, after.bytes),
  percent(after.zeros, after.parameters),
];

function sumMetrics(all: readonly LayerMetrics[]): LayerMetrics {
  const sum = (of: (one: LayerMetrics) => number) => all.reduce((total, one) => total + of(one), 0);
  return {
    parameters: sum((one) => one.parameters),
    bytes: sum((one) => one.bytes),
    macs: sum((one) => one.macs ?? 0),
    zeros: sum((one) => one.zeros),
  };
}

function sensitivityTable({ score, parts }: PruningSensitivity): string {
  const ratios = parts[0]?.points.map(({ ratio }) => percent(ratio, 1)) ?? [];
  const rows = parts.map(({ part, points }) => [
    part,
    ...points.map(({ loss }) => loss.toFixed(4)),
  ]);
  return `Lost of the score ${score.toFixed(4)} with one part pruned by\n${renderTable([["PART", ...ratios], ...rows])}`;
}

function differenceTable({ differences, comparedOn }: Result): string {
  const rows = differences.map((one) => [
    one.output,
    one.maxAbsolute.toPrecision(3),
    one.meanAbsolute.toPrecision(3),
    one.sqnrDb === null ? "-" : one.sqnrDb.toFixed(1),
    one.argmaxAgreement === null ? "-" : percent(one.argmaxAgreement, 1),
  ]);
  return `Against the original, on ${comparedOn}:\n${renderTable([["OUTPUT", "MAX DIFFERENCE", "MEAN", "SQNR DB", "SAME ARGMAX"], ...rows])}`;
}
