// `edgetier model prune <in.onnx> -o <out.onnx>`: a graph with fewer channels, or with weights that are 0, and what that
// saves and changes.

import { cliErrors } from "../errors.ts";
import { toolchainErrors } from "../../toolchain/errors.ts";
import { writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { defineCommand } from "citty";
import { readModelFile } from "../../toolchain/import/read-model-file.ts";
import { type Model, writeModel } from "../../toolchain/onnx/model-file.ts";
import { madeUpInputs } from "../../toolchain/passes/check.ts";
import { type ChannelReport, pruneChannels } from "../../toolchain/prune/channels.ts";
import { costByLayer, type LayerCost } from "../../toolchain/prune/cost.ts";
import { type Importance, IMPORTANCES } from "../../toolchain/prune/importance.ts";
import { closenessJudge } from "../../toolchain/prune/judges.ts";
import { pruneMagnitudes } from "../../toolchain/prune/magnitude.ts";
import { planRatios, type PrunePlan } from "../../toolchain/prune/plan.ts";
import type { Ratios } from "../../toolchain/prune/ratios.ts";
import {
  channelSubject,
  type Judge,
  magnitudeSubject,
  measureSensitivity,
  type Sensitivity,
  type Subject,
} from "../../toolchain/prune/sensitivity.ts";
import { measureShapes, type Shapes } from "../../toolchain/prune/shapes.ts";
import { type OutputDifference, Reference } from "../../toolchain/quantise/differences.ts";
import type { Samples } from "../../toolchain/quantise/observe.ts";
import { samplesOfFile } from "../../toolchain/quantise/sample-file.ts";
import { reasonOf } from "../../core/errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { createProgressLine } from "../judging.ts";
import { inKiB, jsonArg, printJson, printLine, table } from "../output.ts";
import { readCount } from "./samples-args.ts";

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
      options: [...IMPORTANCES],
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
    const [ratio, budget] = [readShare("--ratio", args.ratio), readShare("--budget", args.budget)];
    const [multiple = 1, most] = [
      readCount("--multiple", args.multiple, NAME),
      readCount("--max-samples", args["max-samples"], NAME),
    ];
    if ((ratio === undefined) === (budget === undefined))
      throw cliErrors.usage("Give --ratio or --budget", NAME);
    if (args.global && ratio === undefined) throw cliErrors.usage("--global takes a --ratio", NAME);
    const { model } = await readModelFile(args.in);
    const before = writeModel(model);
    const runtime = createNativeRuntime();
    const specs = await inputSpecs(runtime, before);
    const samples =
      args.samples === undefined ? madeUpInputs(specs) : samplesOfFile(args.samples, specs, most);
    const shapes = await shapesOn(samples, runtime, model);
    const options = { importance: args.importance satisfies Importance, multiple };
    const costBefore = costByLayer(model, shapes);

    const subject =
      args.method === "channel"
        ? channelSubject(before, shapes, args.cost, options)
        : magnitudeSubject(before);
    const sensitivity =
      args.sensitivity || budget !== undefined
        ? await sensitivityOf(subject, await closenessJudge(runtime, before, samples))
        : null;
    const plan =
      sensitivity === null || budget === undefined
        ? null
        : planRatios(subject, sensitivity, budget * subject.cost(0));
    const ratios: Ratios = plan?.ratios ?? ratio ?? 0;
    const scope =
      args.global && typeof ratios === "number"
        ? ({ scope: "model", ratio: ratios } as const)
        : { ratio: ratios };
    const pruned =
      args.method === "channel" ? pruneChannels(model, shapes, { ...options, ...scope }) : null;
    if (pruned === null) pruneMagnitudes(model, scope);

    const after = writeModel(model);
    await writeFile(args.out, after).catch((error: unknown) => {
      throw cliErrors.usage(`${args.out} cannot be written: ${reasonOf(error)}`, NAME);
    });
    const result: Result = {
      out: args.out,
      method: args.method,
      ...sizes(before, after),
      layers: sideBySide(costBefore, costByLayer(model, pruned?.shapes ?? shapes)),
      groups: pruned?.groups ?? [],
      leftAlone: pruned?.leftAlone ?? [],
      sensitivity,
      plan: plan && { ...plan, ratios: Object.fromEntries(plan.ratios) },
      comparedOn: args.samples === undefined ? "made-up inputs" : "samples",
      differences: await compare(runtime, before, after, samples),
    };
    if (args.json) printJson(result);
    else printLine(summary(result));
  },
});

function readShare(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const share = value.trim() === "" ? Number.NaN : Number(value);
  if (!(share >= 0 && share < 1))
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(value)}, and must be from 0 to below 1`,
      NAME,
    );
  return share;
}

async function inputSpecs(runtime: Runtime, bytes: Uint8Array): Promise<readonly TensorSpec[]> {
  const session = await runtime.createSession(bytes);
  const { inputs } = session;
  await session.dispose();
  return inputs;
}

/** Of the first sample. @throws not_comparable if the graph does not run on it */
async function shapesOn(samples: Samples, runtime: Runtime, model: Model): Promise<Shapes> {
  for await (const sample of samples) {
    return await measureShapes(runtime, model, sample).catch((error: unknown) => {
      throw toolchainErrors.notComparable(reasonOf(error), error);
    });
  }
  return new Map();
}

async function sensitivityOf(subject: Subject, judge: Judge): Promise<Sensitivity> {
  const progress = createProgressLine();
  const sensitivity = await measureSensitivity(subject, judge, {
    onProgress: (done, of) => progress.show("sensitivity", done, of),
  });
  progress.clear();
  return sensitivity;
}

interface Result extends Pick<ChannelReport, "groups" | "leftAlone">, Sizes {
  readonly out: string;
  readonly method: "channel" | "magnitude";
  readonly layers: readonly Side[];
  readonly sensitivity: Sensitivity | null;
  /** Of the outputs from the original's. */
  readonly differences: readonly OutputDifference[];
  readonly comparedOn: "made-up inputs" | "samples";
  readonly plan:
    | (Omit<PrunePlan, "ratios"> & { readonly ratios: Readonly<Record<string, number>> })
    | null;
}

interface Sizes {
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  readonly gzipBytesBefore: number;
  readonly gzipBytesAfter: number;
}

function sizes(before: Uint8Array, after: Uint8Array): Sizes {
  const zipped = (bytes: Uint8Array) => gzipSync(bytes, { level: 9 }).byteLength;
  return {
    bytesBefore: before.byteLength,
    bytesAfter: after.byteLength,
    gzipBytesBefore: zipped(before),
    gzipBytesAfter: zipped(after),
  };
}

/** A layer before and after. */
interface Side {
  readonly layer: string;
  readonly op: string;
  readonly before: Figures;
  readonly after: Figures;
}

type Figures = Omit<LayerCost, "layer" | "op">;

/** Pruning takes no layer away. */
function sideBySide(before: readonly LayerCost[], after: readonly LayerCost[]): Side[] {
  return before.flatMap(({ layer, op, ...figures }, position) => {
    const { layer: _layer, op: _op, ...others } = after[position] ?? { layer, op, ...figures };
    return [{ layer, op, before: figures, after: others }];
  });
}

async function compare(
  runtime: Runtime,
  before: Uint8Array,
  after: Uint8Array,
  samples: Samples,
): Promise<OutputDifference[]> {
  const reference = await Reference.of(runtime, before, samples);
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
    table([
      [
        "file",
        `${inKiB(result.bytesBefore)} -> ${inKiB(result.bytesAfter)}`,
        percent(result.bytesAfter, result.bytesBefore),
      ],
      [
        "gzip",
        `${inKiB(result.gzipBytesBefore)} -> ${inKiB(result.gzipBytesAfter)}`,
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
          `Channels that are removed together:\n${table([["GROUP", "CHANNELS", "REMOVED", "LAYERS"], ...groups.map((one) => [one.name, one.channels, one.removed, one.layers.join(", ")])])}`,
        ]),
    ...(leftAlone.length === 0
      ? []
      : [
          `Layers left alone:\n${table([["LAYER", "OPERATOR", "CHANNELS", "BECAUSE"], ...leftAlone.map((one) => [one.layer, one.op, one.channels, one.reason])])}`,
        ]),
    ...(sensitivity === null ? [] : [sensitivityTable(sensitivity)]),
    ...(plan === null
      ? []
      : [
          `Planned, at an expected loss of ${plan.expectedLoss.toFixed(4)}:\n${table(Object.entries(plan.ratios).map(([part, ratio]) => [part, ratio]))}`,
        ]),
    differenceTable(result),
    `Written to ${result.out}`,
  ].join("\n\n");
}

function layerTable(layers: readonly Side[]): string {
  const [shown, others] = [
    layers.filter(({ before }) => before.macs !== 0),
    layers.filter(({ before }) => before.macs === 0),
  ];
  const rows = shown.map(({ layer, op, before, after }) => [layer, op, ...cells(before, after)]);
  if (others.length > 0)
    rows.push([
      `${others.length} others`,
      "",
      ...cells(sumOf(others.map((one) => one.before)), sumOf(others.map((one) => one.after))),
    ]);
  const [before, after] = [
    sumOf(layers.map((one) => one.before)),
    sumOf(layers.map((one) => one.after)),
  ];
  const left = [
    percent(after.parameters, before.parameters),
    percent(after.macs ?? 0, before.macs ?? 0),
    percent(after.bytes, before.bytes),
  ];
  return table([
    ["LAYER", "OPERATOR", "PARAMETERS", "MACS", "BYTES", "ZEROS"],
    ...rows,
    ["all", "", ...cells(before, after)],
    ["left", "", ...left],
  ]);
}

const cells = (before: Figures, after: Figures): string[] => [
  change(before.parameters, after.parameters),
  change(before.macs, after.macs),
  change(before.bytes, after.bytes),
  percent(after.zeros, after.parameters),
];

function sumOf(all: readonly Figures[]): Figures {
  const sum = (of: (one: Figures) => number) => all.reduce((total, one) => total + of(one), 0);
  return {
    parameters: sum((one) => one.parameters),
    bytes: sum((one) => one.bytes),
    macs: sum((one) => one.macs ?? 0),
    zeros: sum((one) => one.zeros),
  };
}

function sensitivityTable({ score, parts }: Sensitivity): string {
  const ratios = parts[0]?.points.map(({ ratio }) => percent(ratio, 1)) ?? [];
  const rows = parts.map(({ part, points }) => [
    part,
    ...points.map(({ loss }) => loss.toFixed(4)),
  ]);
  return `Lost of the score ${score.toFixed(4)} with one part pruned by\n${table([["PART", ...ratios], ...rows])}`;
}

function differenceTable({ differences, comparedOn }: Result): string {
  const rows = differences.map((one) => [
    one.output,
    one.maxAbsolute.toPrecision(3),
    one.meanAbsolute.toPrecision(3),
    one.sqnrDb === null ? "-" : one.sqnrDb.toFixed(1),
    one.argmaxAgreement === null ? "-" : percent(one.argmaxAgreement, 1),
  ]);
  return `Against the original, on ${comparedOn}:\n${table([["OUTPUT", "MAX DIFFERENCE", "MEAN", "SQNR DB", "SAME ARGMAX"], ...rows])}`;
}
