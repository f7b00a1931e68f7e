// From an ONNX model to a model project that can be published: checked, made to fit its task, tried in the runtimes that
// would serve it, described.

import { importErrors } from "./errors.ts";
import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { ModelProject } from "../../registry/manifest.ts";
import type { Runner } from "../evaluate/runner.ts";
import { type Model, serializeModel } from "../onnx/model-file.ts";
import { isNotComparableError } from "../passes/verify-outputs.ts";
import { type AdaptedModel, adaptToTask, type TaskOptions } from "./adapt-to-task.ts";
import { findSizeProblems } from "./input-size-limits.ts";
import { type ModelProjectParts, createModelProject } from "./create-model-project.ts";
import { findOperatorProblems, detectPrecision, findNonFiniteWeights } from "./static-checks.ts";
import type { ImportProblem } from "./import-problem.ts";
import {
  findEdgeProblem,
  findBatchProblem,
  shortReason,
  type TrialRun,
  runTrial,
} from "./trial-run.ts";

export const PLACE_CHOICES = ["auto", "edge", "region"] as const;
/** `auto`: the edge if it can serve the model, else a region. */
export type PlaceChoice = (typeof PLACE_CHOICES)[number];

export interface ImportRequest {
  /** Is changed to what is served. */
  readonly model: Model;
  /** The file's name, for messages and provenance, and its digest. */
  readonly file: string;
  readonly sha256: string;
  /** The model's name. */
  readonly name: string;
  readonly task: TaskOptions;
  readonly place: PlaceChoice;
  readonly deadlineMs: number;
}

export interface ImportContext {
  readonly region: Runner;
  /** Opened only if it is wanted. */
  readonly openEdge: () => Promise<Runner>;
  /** Of an isolate, for all sessions. */
  readonly sessionBudgetBytes: number;
  /** Rows to try the model with, one each; made up where there are none. */
  readonly loadSamples: (
    adapted: AdaptedModel,
    ports: { readonly inputs: readonly TensorSpec[]; readonly outputs: readonly TensorSpec[] },
  ) => Promise<readonly NamedTensors[]>;
  readonly onProgress?: (step: string) => void;
}

export interface ImportResult {
  readonly project: ModelProject;
  /** By the paths that the project names. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** What was changed or found, as sentences. */
  readonly notes: readonly string[];
  /** What only its maker can add, as sentences; the project can be published without it. */
  readonly missing: readonly string[];
  /** Why it is not at the edge, where that was left open. */
  readonly notAtTheEdge: string | null;
  /** What it answered to the samples. */
  readonly sampleOutputs: readonly NamedTensors[];
}

/** @throws not_importable with all that is wrong, and what reading samples throws */
export async function importModel(
  { model, file, sha256, name, task, place, deadlineMs }: ImportRequest,
  tools: ImportContext,
): Promise<ImportResult> {
  const {
    region,
    openEdge: edge,
    sessionBudgetBytes,
    loadSamples: samplesFor,
    onProgress = () => {},
  } = tools;
  const refusal = (problems: readonly ImportProblem[]) =>
    importErrors.notImportable(
      file,
      problems.map(({ problem }) => problem),
      [...new Set(problems.map(({ remedy }) => remedy))],
    );
  const refuse = (problems: readonly ImportProblem[]) => {
    if (problems.length > 0) throw refusal(problems);
  };
  onProgress("checking operators and weights");
  const format = lowerIrVersion(model);
  const operators = findOperatorProblems(model);
  const adapted = adaptToTask(model, task);
  refuse([...operators, ...findSizeProblems(model), ...adapted.problems]);

  onProgress("trying it in onnxruntime-node");
  const graph = serializeModel(model);
  let samples: readonly NamedTensors[] = [];
  const trial = await runTrial(
    region,
    graph,
    async (ports) => (samples = await samplesFor(adapted, ports)),
  ).catch((error: unknown): never => {
    if (isNotComparableError(error))
      throw refusal([
        {
          problem: `no inputs can be made up for it: ${shortReason(error)}`,
          remedy: "Give inputs that it takes with --samples.",
        },
      ]);
    if (!(error instanceof EdgeTierError) || error.code !== "session_failed") throw error;
    throw refusal([
      {
        problem: shortReason(error),
        remedy:
          "Export it again for the ONNX Runtime that serves it: with an earlier opset version, or without what is named.",
      },
    ]);
  });
  refuse(findTrialProblems(trial));
  if (adapted.hadFixedBatch) {
    const problem = await findBatchProblem(region, graph, samples);
    if (problem !== undefined)
      refuse([
        {
          problem: `it works only for the batch that it was exported with: ${problem}`,
          remedy:
            "Export it with a dynamic batch dimension: dynamic_axes, or dynamic_shapes, in torch.onnx.export.",
        },
      ]);
  }
  const described: ModelProjectParts = {
    adapted,
    trial,
    file,
    sha256,
    name,
    deadlineMs,
    model,
    graph,
    precision: detectPrecision(model),
  };
  refuse(findLabelProblems(adapted, trial));

  let notAtTheEdge: string | undefined;
  if (place !== "region") {
    onProgress("trying it in the edge's engine");
    notAtTheEdge =
      findTextTensorProblem(trial) ??
      (await findEdgeProblem(
        await edge(),
        graph,
        samples,
        trial.sampleOutputs,
        sessionBudgetBytes,
      ));
    if (notAtTheEdge !== undefined && place === "edge")
      refuse([
        {
          problem: `the edge cannot serve it: ${notAtTheEdge}`,
          remedy: "Import it with --place region.",
        },
      ]);
  }
  const servedAt = place === "region" || notAtTheEdge !== undefined ? "region" : "edge";
  const { project, files, missing } = createModelProject(described, servedAt);
  return {
    project,
    files,
    notes: [...format, ...adapted.notes, ...findNonFiniteWeights(model)],
    missing,
    notAtTheEdge: notAtTheEdge ?? null,
    sampleOutputs: trial.sampleOutputs,
  };
}

/** Of the file format, as ONNX Runtime 1.30 takes it. What a later version adds, it refuses by its own name. */
const MAX_IR_VERSION = 13n;

function lowerIrVersion(model: Model): string[] {
  const { irVersion } = model;
  if (irVersion <= MAX_IR_VERSION) return [];
  model.irVersion = MAX_IR_VERSION;
  return [
    `it was of version ${irVersion} of the format, and is of ${MAX_IR_VERSION} now, the newest that ONNX Runtime takes`,
  ];
}

const findTextTensorProblem = ({ inputs, outputs }: TrialRun): string | undefined => {
  const text = [...inputs, ...outputs].find(({ datatype }) => datatype === "BYTES");
  return text && `${text.name} is text, and the edge runs numbers only`;
};

function findTrialProblems({ inputs, outputs, failure: failed }: TrialRun): ImportProblem[] {
  if (inputs.length === 0)
    return [
      {
        problem: "it takes no inputs: it always gives the same",
        remedy: "Export it with the tensors that change as its inputs.",
      },
    ];
  if (outputs.length === 0)
    return [{ problem: "it gives no outputs", remedy: "Export it with outputs." }];
  if (failed === undefined) return [];
  return [
    {
      problem: `it does not run on the inputs that it was tried with: ${failed}`,
      remedy:
        "Give inputs that it takes with --samples; every input needs a shape, with names or -1 for what may vary.",
    },
  ];
}

/** Logits and labels are as many. */
function findLabelProblems(
  { labels, isClassification: classification }: AdaptedModel,
  { outputs }: TrialRun,
): ImportProblem[] {
  const width = outputs.find(({ name }) => name === LOGITS_OUTPUT)?.shape.at(-1);
  if (
    !classification ||
    labels === undefined ||
    width === undefined ||
    width === -1 ||
    width === labels.length
  )
    return [];
  return [
    {
      problem: `it gives ${width} logits, and there are ${labels.length} labels`,
      remedy: "Give as many labels as it gives logits, in their order, with --labels.",
    },
  ];
}
