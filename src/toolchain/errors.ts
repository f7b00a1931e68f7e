// Errors of the toolchain: techniques, evaluation, distillation, export and deployment limits.

import { formatValue, errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const toolchainErrorTable = {
  limit_exceeded: { status: 400, remedy: "Make the deployment smaller." },
  unknown_pass: { status: 400, remedy: "Choose one of these passes: {known}." },
  outputs_changed: {
    status: 400,
    remedy:
      "Omit passes to find the one that changes the outputs. If the model tolerates the change, raise --tolerance.",
  },
  not_convertible: { status: 400, remedy: "Convert an FP32 graph." },
  not_comparable: { status: 400, remedy: "Compare the two graphs on your own inputs." },
  not_quantizable: { status: 400, remedy: "Quantize an FP32 graph." },
  invalid_samples: {
    status: 400,
    remedy:
      'Give a file with one {"text", "label"} or {"file", "label"} per line, or a folder with one subfolder of files per label.',
  },
  not_judgeable: {
    status: 400,
    remedy: "Evaluate the model with your own client, or give it a classification task.",
  },
  risk_not_reached: {
    status: 400,
    remedy: "Give more samples, allow a larger epsilon, or pass --allow-last-tier-only.",
  },
  not_distillable: { status: 400, remedy: "Correct the project and run the command again." },
  invalid_training_samples: { status: 400, remedy: "Give {form}." },
  invalid_pruning: {
    status: 400,
    remedy:
      "Give the share to prune as a ratio, such as 0.3. Run `edgetier model prune --ratio 0 --json` to list the layers and groups.",
  },
  nothing_to_prune: {
    status: 400,
    remedy: "Prune an FP32 graph with folded constants, before it is quantized.",
  },
  pruning_budget: { status: 400, remedy: "Raise the budget, or measure larger ratios." },
  not_exportable: {
    status: 400,
    remedy: "Export a model with an edge tier that runs on a device.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(toolchainErrorTable);

const joinProblems = (problems: readonly string[]): string => withoutPeriod(problems.join("; "));
const withoutPeriod = (text: string): string => text.replace(/\.$/, "");

interface RiskTest {
  readonly tested: number;
  readonly all: number;
  readonly deadlineMs: number | undefined;
}

/** The smallest change of each kind that would reach the bound; undefined if none would. */
interface SufficientChanges {
  readonly samples: number | undefined;
  readonly epsilon: number | undefined;
}

/** `reason` parameters are clauses without a period; `remedy` parameters are whole sentences. */
export const toolchainErrors = {
  limitExceeded: (title: string, measured: number, limit: number, unit: string, remedy: string) =>
    makeError("limit_exceeded", `${title}: ${measured} ${unit} exceed the limit of ${limit}.`, {
      remedy,
      facts: { measured, limit, unit },
    }),
  unknownPass: (name: string, known: readonly string[]) =>
    makeError("unknown_pass", `Unknown pass ${formatValue(name)}.`, {
      values: { known: known.join(", ") },
    }),
  outputsChanged: (problems: readonly string[]) =>
    makeError("outputs_changed", `The graph's outputs have changed: ${problems.join("; ")}.`),
  notConvertible: (reason: string, remedy: string) =>
    makeError("not_convertible", `The graph cannot be converted to FP16: ${reason}.`, { remedy }),
  notComparable: (reason: string, cause?: unknown) =>
    makeError(
      "not_comparable",
      `The graph does not run on synthetic inputs: ${withoutPeriod(reason)}.`,
      { cause },
    ),
  notQuantizable: (reason: string, remedy: string) =>
    makeError("not_quantizable", `The graph cannot be quantized: ${withoutPeriod(reason)}.`, {
      remedy,
    }),
  invalidSamples: (path: string, problems: readonly string[]) =>
    makeError("invalid_samples", `${path} has invalid samples: ${joinProblems(problems)}.`),
  notJudgeable: (model: string, task: string) =>
    makeError("not_judgeable", `${model} has the task ${task}, which has no labels to evaluate.`),
  riskNotReached: (
    bound: { readonly what: string; readonly epsilon: number; readonly delta: number },
    { tested, all, deadlineMs }: RiskTest,
    sufficient: SufficientChanges,
  ) =>
    makeError(
      "risk_not_reached",
      `No early exit keeps a risk of ${bound.epsilon} (${bound.what}) with confidence ${1 - bound.delta}${deadlineMs === undefined ? "" : ` within the deadline of ${deadlineMs} ms`}, tested on ${tested} of ${all} samples.`,
      {
        remedy: [
          ...(sufficient.samples === undefined
            ? []
            : [`Give ${sufficient.samples} samples or more.`]),
          ...(sufficient.epsilon === undefined
            ? []
            : [`Allow an epsilon of ${sufficient.epsilon} or more.`]),
          ...(deadlineMs === undefined ? [] : ["Raise deadlineMs, or make the tiers faster."]),
          "Or send every request to the last tier with --allow-last-tier-only.",
        ].join(" "),
      },
    ),
  notDistillable: (reason: string, remedy: string) =>
    makeError("not_distillable", `No student can be distilled: ${withoutPeriod(reason)}.`, {
      remedy,
    }),
  invalidTrainingSamples: (path: string, problems: readonly string[], form: string) =>
    makeError(
      "invalid_training_samples",
      `${path} has invalid training samples: ${joinProblems(problems)}.`,
      { values: { form } },
    ),
  invalidPruning: (problem: string) => makeError("invalid_pruning", `${problem}.`),
  nothingToPrune: (reasons: readonly string[]) =>
    makeError(
      "nothing_to_prune",
      `The graph has no prunable layer: ${reasons.slice(0, 8).join("; ") || "it has no convolution or matrix product with constant weights in FP32"}.`,
    ),
  pruningBudget: (budget: number, least: number) =>
    makeError(
      "pruning_budget",
      `The budget of ${Math.round(budget)} is out of reach: pruned with the largest measured ratios, the graph still costs ${Math.round(least)}.`,
      { facts: { budget, least } },
    ),
  notExportable: (model: string, reason: string, remedy: string) =>
    makeError("not_exportable", `${model} cannot be exported: ${reason}.`, { remedy }),
} as const;
