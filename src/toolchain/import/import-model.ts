// From an ONNX model to a model project that can be published: checked, made to fit its task, tried in the runtimes that
// would serve it, described.

import { importErrors } from "./errors.ts";
import { LOGITS } from "../../cascade/calibration.ts";
import { EdgeTierError } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { ModelProject } from "../../registry/manifest.ts";
import type { Runner } from "../judge/runner.ts";
import { type Model, writeModel } from "../onnx/model-file.ts";
import { isNotComparable } from "../passes/check.ts";
import { type Adapted, adaptToTask, type TaskChoice } from "./adapt.ts";
import { sizeProblems } from "./declared-sizes.ts";
import { type Described, describeProject } from "./describe.ts";
import { operatorProblems, precisionOf, weightNotes } from "./operators.ts";
import type { Problem } from "./problem.ts";
import { problemAtEdge, problemWithBatch, reasonIn, type Trial, tryIn } from "./trial.ts";

export const PLACES = ["auto", "edge", "region"] as const;
/** `auto`: the edge if it can serve the model, else a region. */
export type PlaceChoice = (typeof PLACES)[number];

export interface ImportRequest {
  /** Is changed to what is served. */
  readonly model: Model;
  /** The file's name, for messages and provenance, and its digest. */
  readonly file: string;
  readonly sha256: string;
  /** The model's name. */
  readonly name: string;
  readonly task: TaskChoice;
  readonly place: PlaceChoice;
  readonly deadlineMs: number;
}

export interface ImportTools {
  readonly region: Runner;
  /** Opened only if it is wanted. */
  readonly edge: () => Promise<Runner>;
  /** Of an isolate, for all sessions. */
  readonly sessionBudgetBytes: number;
  /** Rows to try the model with, one each; made up where there are none. */
  readonly samplesFor: (
    adapted: Adapted,
    ports: { readonly inputs: readonly TensorSpec[]; readonly outputs: readonly TensorSpec[] },
  ) => Promise<readonly NamedTensors[]>;
  readonly onProgress?: (step: string) => void;
}

export interface Imported {
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
  readonly answers: readonly NamedTensors[];
}

/** @throws not_importable with all that is wrong, and what reading samples throws */
export async function importModel(
  { model, file, sha256, name, task, place, deadlineMs }: ImportRequest,
  tools: ImportTools,
): Promise<Imported> {
  const { region, edge, sessionBudgetBytes, samplesFor, onProgress = () => {} } = tools;
  const refusal = (problems: readonly Problem[]) =>
    importErrors.notImportable(
      file,
      problems.map(({ problem }) => problem),
      [...new Set(problems.map(({ remedy }) => remedy))],
    );
  const refuse = (problems: readonly Problem[]) => {
    if (problems.length > 0) throw refusal(problems);
  };
  onProgress("checking operators and weights");
  const format = lowerFormat(model);
  const operators = operatorProblems(model);
  const adapted = adaptToTask(model, task);
  refuse([...operators, ...sizeProblems(model), ...adapted.problems]);

  onProgress("trying it in onnxruntime-node");
  const graph = writeModel(model);
  let samples: readonly NamedTensors[] = [];
  const trial = await tryIn(
    region,
    graph,
    async (ports) => (samples = await samplesFor(adapted, ports)),
  ).catch((error: unknown): never => {
    if (isNotComparable(error))
      throw refusal([
        {
          problem: `no inputs can be made up for it: ${reasonIn(error)}`,
          remedy: "Give inputs that it takes with --samples.",
        },
      ]);
    if (!(error instanceof EdgeTierError) || error.code !== "session_failed") throw error;
    throw refusal([
      {
        problem: reasonIn(error),
        remedy:
          "Export it again for the ONNX Runtime that serves it: with an earlier opset version, or without what is named.",
      },
    ]);
  });
  refuse(trialProblems(trial));
  if (adapted.batchOpened) {
    const problem = await problemWithBatch(region, graph, samples);
    if (problem !== undefined)
      refuse([
        {
          problem: `it works only for the batch that it was exported with: ${problem}`,
          remedy:
            "Export it with a dynamic batch dimension: dynamic_axes, or dynamic_shapes, in torch.onnx.export.",
        },
      ]);
  }
  const described: Described = {
    adapted,
    trial,
    file,
    sha256,
    name,
    deadlineMs,
    model,
    graph,
    precision: precisionOf(model),
  };
  refuse(labelProblems(adapted, trial));

  let notAtTheEdge: string | undefined;
  if (place !== "region") {
    onProgress("trying it in the edge's engine");
    notAtTheEdge =
      unservable(trial) ??
      (await problemAtEdge(await edge(), graph, samples, trial.answers, sessionBudgetBytes));
    if (notAtTheEdge !== undefined && place === "edge")
      refuse([
        {
          problem: `the edge cannot serve it: ${notAtTheEdge}`,
          remedy: "Import it with --place region.",
        },
      ]);
  }
  const servedAt = place === "region" || notAtTheEdge !== undefined ? "region" : "edge";
  const { project, files, missing } = describeProject(described, servedAt);
  return {
    project,
    files,
    notes: [...format, ...adapted.notes, ...weightNotes(model)],
    missing,
    notAtTheEdge: notAtTheEdge ?? null,
    answers: trial.answers,
  };
}

/** Of the file format, as ONNX Runtime 1.30 takes it. What a later version adds, it refuses by its own name. */
const NEWEST_FORMAT = 13n;

function lowerFormat(model: Model): string[] {
  const { irVersion } = model;
  if (irVersion <= NEWEST_FORMAT) return [];
  model.irVersion = NEWEST_FORMAT;
  return [
    `it was of version ${irVersion} of the format, and is of ${NEWEST_FORMAT} now, the newest that ONNX Runtime takes`,
  ];
}

const unservable = ({ inputs, outputs }: Trial): string | undefined => {
  const text = [...inputs, ...outputs].find(({ datatype }) => datatype === "BYTES");
  return text && `${text.name} is text, and the edge runs numbers only`;
};

function trialProblems({ inputs, outputs, failed }: Trial): Problem[] {
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
function labelProblems({ labels, classification }: Adapted, { outputs }: Trial): Problem[] {
  const width = outputs.find(({ name }) => name === LOGITS)?.shape.at(-1);
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
