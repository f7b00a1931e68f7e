// Errors of techniques and evaluation.

import { shown, errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const toolchainErrorTable = {
  limit_exceeded: { status: 400, remedy: "Make the deployment smaller." },
  unknown_pass: { status: 400, remedy: "There are: {known}." },
  outputs_changed: {
    status: 400,
    remedy:
      "Leave a pass out to find which one changes it, or allow more with --tolerance if that much is nothing to the model.",
  },
  not_convertible: { status: 400, remedy: "Convert an FP32 graph." },
  not_comparable: { status: 400, remedy: "Compare the two graphs on inputs of your own." },
  not_quantisable: { status: 400, remedy: "Quantize an FP32 graph." },
  invalid_samples: {
    status: 400,
    remedy:
      'Give a file with one {"text", "label"} or {"file", "label"} a line, or a folder with the files of each label in a folder of its name.',
  },
  not_judgeable: {
    status: 400,
    remedy: "Judge it by a client of its own, or give it a classification task.",
  },
  risk_not_reached: {
    status: 400,
    remedy: "Give more samples, allow a larger epsilon, or pass --or-top-only.",
  },
  not_distillable: { status: 400, remedy: "Correct the project and run the command again." },
  invalid_training_samples: { status: 400, remedy: "Give {form}." },
  invalid_pruning: {
    status: 400,
    remedy:
      "A ratio is the share to prune, such as 0.3; `edgetier model prune --ratio 0 --json` lists the layers and groups.",
  },
  nothing_to_prune: {
    status: 400,
    remedy: "Prune an FP32 graph, before it is quantised, with its constants folded.",
  },
  pruning_budget: { status: 400, remedy: "Raise the budget, or measure larger ratios." },
  not_exportable: { status: 400, remedy: "Export a model whose edge tier runs on a device." },
} as const satisfies ErrorTable;

const makeError = errorFactory(toolchainErrorTable);

export const toolchainErrors = {
  limitExceeded: (what: string, measured: number, limit: number, unit: string, remedy: string) =>
    makeError("limit_exceeded", `${what}: ${measured} ${unit}, and the limit is ${limit}.`, {
      remedy,
      facts: { measured, limit, unit },
    }),
  unknownPass: (name: string, known: readonly string[]) =>
    makeError("unknown_pass", `There is no pass ${shown(name)}.`, {
      values: { known: known.join(", ") },
    }),
  outputsChanged: (problems: readonly string[]) =>
    makeError("outputs_changed", `The graph does not answer as before: ${problems.join("; ")}.`),
  notConvertible: (reason: string, remedy: string) =>
    makeError("not_convertible", `This graph cannot be made FP16: ${reason}.`, { remedy }),
  notComparable: (reason: string, cause?: unknown) =>
    makeError(
      "not_comparable",
      `The graph does not run on made-up inputs: ${reason.replace(/\.$/, "")}.`,
      { cause },
    ),
  notQuantisable: (reason: string, remedy: string) =>
    makeError("not_quantisable", `This graph cannot be quantised: ${reason.replace(/\.$/, "")}.`, {
      remedy,
    }),
  invalidSamples: (path: string, problems: readonly string[]) =>
    makeError(
      "invalid_samples",
      `${path} has no samples to judge a model on: ${problems.join("; ").replace(/\.$/, "")}.`,
    ),
  notJudgeable: (model: string, task: string) =>
    makeError(
      "not_judgeable",
      `${model} has the task ${task}: it gives no label to be right or wrong.`,
    ),
  riskNotReached: (
    bound: { readonly what: string; readonly epsilon: number; readonly delta: number },
    had: { readonly tested: number; readonly all: number; readonly deadlineMs: number | undefined },
    would: { readonly samples: number | undefined; readonly epsilon: number | undefined },
  ) =>
    makeError(
      "risk_not_reached",
      `No early exit holds a risk of ${bound.epsilon} (${bound.what}) with confidence ${1 - bound.delta} on ${had.tested} tested samples of ${had.all}${had.deadlineMs === undefined ? "" : `: no exits keep the tiers within the deadline of ${had.deadlineMs} ms`}.`,
      {
        remedy: [
          ...(would.samples === undefined ? [] : [`Give ${would.samples} samples or more.`]),
          ...(would.epsilon === undefined ? [] : [`Allow an epsilon of ${would.epsilon} or more.`]),
          ...(had.deadlineMs === undefined ? [] : ["Raise deadlineMs, or make the tiers faster."]),
          "Or send everything to the last tier, with --or-top-only.",
        ].join(" "),
      },
    ),
  notDistillable: (reason: string, remedy: string) =>
    makeError("not_distillable", `Nothing can be distilled: ${reason.replace(/\.$/, "")}.`, {
      remedy,
    }),
  invalidTrainingSamples: (path: string, problems: readonly string[], form: string) =>
    makeError(
      "invalid_training_samples",
      `${path} has no samples that a student can learn: ${problems.join("; ").replace(/\.$/, "")}.`,
      { values: { form } },
    ),
  invalidPruning: (problem: string) => makeError("invalid_pruning", `${problem}.`),
  nothingToPrune: (reasons: readonly string[]) =>
    makeError(
      "nothing_to_prune",
      `Nothing in this graph can be pruned: ${reasons.slice(0, 8).join("; ") || "it has no convolution or matrix product with constant weights in FP32"}.`,
    ),
  pruningBudget: (budget: number, least: number) =>
    makeError(
      "pruning_budget",
      `A budget of ${Math.round(budget)} cannot be kept: pruned as far as was measured, the graph still costs ${Math.round(least)}.`,
      { facts: { budget, least } },
    ),
  notExportable: (model: string, reason: string, remedy: string) =>
    makeError("not_exportable", `${model} cannot be exported: ${reason}.`, { remedy }),
} as const;
