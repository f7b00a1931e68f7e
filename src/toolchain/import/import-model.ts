// Imports an ONNX model as a model project. The model is checked, adapted to its task and tried in
// the runtimes that would serve it. The project describes the result and can be published.

import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { ModelProject } from "../../registry/manifest.ts";
import type { Runner } from "../evaluate/runner.ts";
import { type Model, serializeModel } from "../onnx/model-file.ts";
import { isNotComparableError } from "../passes/verify-outputs.ts";
import { type AdaptedModel, adaptToTask, type TaskOptions } from "./adapt-to-task.ts";
import { createModelProject } from "./create-model-project.ts";
import { importErrors } from "./errors.ts";
import type { ImportProblem } from "./import-problem.ts";
import { findSizeProblems } from "./input-size-limits.ts";
import { findOperatorProblems, detectPrecision, findNonFiniteWeights } from "./static-checks.ts";
import {
  findEdgeProblem,
  findBatchProblem,
  shortReason,
  type TrialRun,
  runTrial,
} from "./trial-run.ts";

export const PLACE_CHOICES = ["auto", "edge", "region"] as const;
/** `auto` selects the edge if it can serve the model, and a region otherwise. */
export type PlaceChoice = (typeof PLACE_CHOICES)[number];

export interface ImportRequest {
  /** Changed in place to the graph that is served. */
  readonly model: Model;
  /** Name of the file, for messages and provenance. */
  readonly file: string;
  /** Digest of the file. */
  readonly sha256: string;
  /** Name of the model. */
  readonly name: string;
  readonly task: TaskOptions;
  readonly place: PlaceChoice;
  readonly deadlineMs: number;
}

export interface ImportContext {
  readonly region: Runner;
  /** Called only if the edge is an option. */
  readonly openEdge: () => Promise<Runner>;
  /** Memory of an isolate for all its sessions. */
  readonly sessionBudgetBytes: number;
  /** Loads inputs for the trial, one row each; generates them if the user gave none. */
  readonly loadSamples: (
    adapted: AdaptedModel,
    ports: { readonly inputs: readonly TensorSpec[]; readonly outputs: readonly TensorSpec[] },
  ) => Promise<readonly NamedTensors[]>;
  readonly onProgress?: (step: string) => void;
}

export interface ImportResult {
  readonly project: ModelProject;
  /** Content of the files, by the paths in the project. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** Changes and findings, as sentences. */
  readonly notes: readonly string[];
  /**
   * Information that only the author can add, as sentences. The project can be published without
   * it.
   */
  readonly missing: readonly string[];
  /** Why the edge cannot serve the model, if the place was `auto`. */
  readonly notAtTheEdge: string | null;
  /** Outputs of the samples. */
  readonly sampleOutputs: readonly NamedTensors[];
}

/** @throws not_importable with all problems, and the errors of reading samples */
export async function importModel(
  { model, file, sha256, name, task, place, deadlineMs }: ImportRequest,
  context: ImportContext,
): Promise<ImportResult> {
  const { region, onProgress = () => {} } = context;
  onProgress("checking operators and weights");
  const formatNotes = lowerIrVersion(model);
  const operatorProblems = findOperatorProblems(model);
  const adapted = adaptToTask(model, task);
  rejectProblems(file, [...operatorProblems, ...findSizeProblems(model), ...adapted.problems]);

  onProgress("running a trial in onnxruntime-node");
  const graph = serializeModel(model);
  const { trial, samples } = await runRegionTrial(file, graph, adapted, context);
  rejectProblems(file, findTrialProblems(trial));
  if (adapted.hadFixedBatch) rejectProblems(file, await findBatchProblems(region, graph, samples));
  const precision = detectPrecision(model);
  rejectProblems(file, findLabelProblems(adapted, trial));

  const notAtTheEdge =
    place === "region" ? undefined : await findEdgeObstacle({ graph, trial, samples }, context);
  if (notAtTheEdge !== undefined && place === "edge")
    rejectProblems(file, [
      {
        problem: `the edge cannot serve it: ${notAtTheEdge}`,
        remedy: "Import it with --place region.",
      },
    ]);

  const parts = { adapted, trial, file, sha256, name, deadlineMs, model, graph, precision };
  const servingPlace = place === "region" || notAtTheEdge !== undefined ? "region" : "edge";
  const { project, files, missing } = createModelProject(parts, servingPlace);
  return {
    project,
    files,
    notes: [...formatNotes, ...adapted.notes, ...findNonFiniteWeights(model)],
    missing,
    notAtTheEdge: notAtTheEdge ?? null,
    sampleOutputs: trial.sampleOutputs,
  };
}

function rejectProblems(file: string, problems: readonly ImportProblem[]): void {
  if (problems.length === 0) return;
  throw importErrors.notImportable(
    file,
    problems.map(({ problem }) => problem),
    [...new Set(problems.map(({ remedy }) => remedy))],
  );
}

interface ModelTrial {
  readonly trial: TrialRun;
  readonly samples: readonly NamedTensors[];
}

async function runRegionTrial(
  file: string,
  graph: Uint8Array,
  adapted: AdaptedModel,
  { region, loadSamples }: ImportContext,
): Promise<ModelTrial> {
  let samples: readonly NamedTensors[] = [];
  try {
    const trial = await runTrial(
      region,
      graph,
      async (ports) => (samples = await loadSamples(adapted, ports)),
    );
    return { trial, samples };
  } catch (error) {
    if (isNotComparableError(error))
      rejectProblems(file, [
        {
          problem: `no inputs can be generated for it: ${shortReason(error)}`,
          remedy: "Give valid inputs with --samples.",
        },
      ]);
    if (error instanceof EdgeTierError && error.code === "session_failed")
      rejectProblems(file, [
        {
          problem: shortReason(error),
          remedy:
            "Export it again for the ONNX Runtime that serves it: with an earlier opset version, or without the mentioned feature.",
        },
      ]);
    throw error;
  }
}

async function findBatchProblems(
  region: Runner,
  graph: Uint8Array,
  samples: readonly NamedTensors[],
): Promise<ImportProblem[]> {
  const problem = await findBatchProblem(region, graph, samples);
  if (problem === undefined) return [];
  return [
    {
      problem: `it works only for the batch size of its export: ${problem}`,
      remedy:
        "Export it with a dynamic batch dimension: dynamic_axes, or dynamic_shapes, in torch.onnx.export.",
    },
  ];
}

async function findEdgeObstacle(
  { graph, trial, samples }: ModelTrial & { readonly graph: Uint8Array },
  { openEdge, sessionBudgetBytes, onProgress = () => {} }: ImportContext,
): Promise<string | undefined> {
  onProgress("running a trial in the edge's engine");
  return (
    findTextTensorProblem(trial) ??
    (await findEdgeProblem(
      await openEdge(),
      graph,
      samples,
      trial.sampleOutputs,
      sessionBudgetBytes,
    ))
  );
}

/**
 * Newest file format that ONNX Runtime 1.30 accepts. It rejects the additions of later versions by
 * name.
 */
const MAX_IR_VERSION = 13n;

function lowerIrVersion(model: Model): string[] {
  const { irVersion } = model;
  if (irVersion <= MAX_IR_VERSION) return [];
  model.irVersion = MAX_IR_VERSION;
  return [
    `its format version ${irVersion} is lowered to ${MAX_IR_VERSION}, the newest that ONNX Runtime accepts`,
  ];
}

const findTextTensorProblem = ({ inputs, outputs }: TrialRun): string | undefined => {
  const text = [...inputs, ...outputs].find(({ datatype }) => datatype === "BYTES");
  return text && `${text.name} is text, but the edge supports numeric tensors only`;
};

function findTrialProblems({ inputs, outputs, failure }: TrialRun): ImportProblem[] {
  if (inputs.length === 0)
    return [
      {
        problem: "it has no inputs, so its outputs are always the same",
        remedy: "Export it with the variable tensors as inputs.",
      },
    ];
  if (outputs.length === 0)
    return [{ problem: "it has no outputs", remedy: "Export it with outputs." }];
  if (failure === undefined) return [];
  return [
    {
      problem: `it fails on the trial inputs: ${failure}`,
      remedy:
        "Give valid inputs with --samples. Declare a shape for every input, with names or -1 for variable dimensions.",
    },
  ];
}

/** Checks that the number of logits equals the number of labels. */
function findLabelProblems(
  { labels, isClassification }: AdaptedModel,
  { outputs }: TrialRun,
): ImportProblem[] {
  const width = outputs.find(({ name }) => name === LOGITS_OUTPUT)?.shape.at(-1);
  if (
    !isClassification ||
    labels === undefined ||
    width === undefined ||
    width === -1 ||
    width === labels.length
  )
    return [];
  return [
    {
      problem: `it has ${width} logits but ${labels.length} labels`,
      remedy: "Give one label per logit, in the same order, with --labels.",
    },
  ];
}
