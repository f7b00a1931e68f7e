// Early exits (`edgetier model exits`): cuts a region tier's graph at given values. An exit head is trained and evaluated at
// each cut. The best first stage becomes an edge tier in add-exit-tier.ts.

import { coreErrors } from "../../core/common-errors.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { getTask } from "../../tasks/tasks.ts";
import { encodeSamples, type EncodedSample, computeLogits } from "../evaluate/evaluation-set.ts";
import type { LabeledSample } from "../evaluate/labeled-samples.ts";
import {
  requireProjectFile,
  readProjectLabels,
  createTierPreprocessor,
  type ProjectTier,
} from "../evaluate/project-tier.ts";
import type { Runner } from "../evaluate/runner.ts";
import { type Model, parseModel } from "../onnx/model-file.ts";
import { chooseActivationQuantization } from "./activation-quantization.ts";
import { evaluateStages, type StageEvaluation, type StagedGraphs } from "./evaluate-stages.ts";
import { type CutPoint, findCuts } from "./find-cuts.ts";
import {
  type ActivationQuantization,
  type ExitHead,
  buildFirstStage,
  buildSecondStage,
} from "./stages.ts";
import { trainHeads, type TrainHeadsOptions } from "./train-heads.ts";

export interface CreateExitsOptions {
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly runtime: Runtime;
  /** Samples that heads are trained on. */
  readonly trainingSamples: readonly LabeledSample[];
  /** Samples that exits are evaluated and calibrated on, none of them a training sample. */
  readonly evaluationSamples: readonly LabeledSample[];
  readonly training: Omit<TrainHeadsOptions, "classCount" | "onProgress">;
  readonly maxLossPoints: number;
  readonly onProgress?: (step: string, done: number, total: number) => void;
}

/** A cut with its stages and their evaluation. */
export interface EvaluatedCut extends CutPoint {
  readonly judgement: StageEvaluation;
  readonly firstBytes: number;
  /** Mean work of a request, as a share of the whole graph's multiplications. Requests that exit skip the second stage. */
  readonly work: number;
  /** Data sent to the region if a request does not exit. */
  readonly sends: "activation" | "input";
  readonly graphs: StagedGraphs;
}

export interface CreatedExits {
  readonly cuts: readonly EvaluatedCut[];
  /** Mean request size of the samples. */
  readonly inputBytes: number;
}

/** Returns the region tier with the id, or the last region tier by default. @throws no_such_tier */
export function selectTierToCut(
  project: ClassificationProject,
  id: string | undefined,
): ProjectTier {
  const regions = project.tiers.filter(({ place }) => place === "region");
  const tier = id === undefined ? regions.at(-1) : regions.find((region) => region.id === id);
  if (tier === undefined)
    throw coreErrors.noSuchTier(
      project.model,
      id ?? "of a region",
      regions.map((region) => region.id),
    );
  return tier;
}

/** Number of rows of the probe with several rows. */
const PROBE_ROWS = 8;

/** Finds all values at which the tier's graph can be cut. @throws invalid_project, invalid_model_file, session_failed */
export async function findTierCuts(
  source: PublishSource,
  project: ClassificationProject,
  tier: ProjectTier,
  runtime: Runtime,
  samples: readonly LabeledSample[],
): Promise<CutPoint[]> {
  const preprocessor = createTierPreprocessor(source, project, tier);
  const inputs = samples.slice(0, PROBE_ROWS).map(({ input }) => input);
  const [shortest = getTask(project.task).exampleInput] = inputs.toSorted(
    (a, b) => countElements(preprocessor.encode([a])) - countElements(preprocessor.encode([b])),
  );
  return await findCuts(runtime, parseModel(requireProjectFile(source, tier.graph)), {
    singleRow: preprocessor.encode([shortest]),
    multipleRows: preprocessor.encode(inputs.length > 1 ? inputs : [shortest, shortest]),
  });
}

const countElements = (
  tensors: ReturnType<ReturnType<typeof createTierPreprocessor>["encode"]>,
): number => Object.values(tensors).reduce((sum, { data }) => sum + data.length, 0);

/** More samples change the ranges little. */
const RANGE_SAMPLES = 256;

/** Trains and evaluates an exit head at each cut point. @throws not_cuttable, invalid_project, session_failed */
export async function createExits(
  source: PublishSource,
  project: ClassificationProject,
  tier: ProjectTier,
  cutPoints: readonly CutPoint[],
  options: CreateExitsOptions,
): Promise<CreatedExits> {
  const { runners, runtime, training, maxLossPoints, onProgress = () => {} } = options;
  const graph = requireProjectFile(source, tier.graph);
  const model = parseModel(graph);
  const labels = readProjectLabels(source, project);
  const preprocessor = createTierPreprocessor(source, project, tier);
  const trainingSet = encodeSamples(options.trainingSamples, preprocessor, labels);
  const evaluationSet = encodeSamples(options.evaluationSamples, preprocessor, labels);

  const heads = await trainHeads(runtime, model, cutPoints, trainingSet, {
    ...training,
    classCount: labels.length,
    onProgress,
  });
  const quantizations = await chooseActivationQuantization(
    runtime,
    model,
    cutPoints.map(({ value }) => value),
    trainingSet.slice(0, RANGE_SAMPLES).map(({ inputs }) => inputs),
  );
  const fullGraphLogits = await computeGraphLogits(runners.region, graph, evaluationSet, (done) =>
    onProgress("the whole graph", done, evaluationSet.length),
  );
  const inputBytes = computeMeanInputBytes(project, options.evaluationSamples);

  const cuts: EvaluatedCut[] = [];
  for (const [position, cutPoint] of cutPoints.entries()) {
    const { value } = cutPoint;
    const head = heads[position] as ExitHead;
    const graphs = buildStages(model, cutPoint, head, quantizations.get(value));
    const judgement = await evaluateStages(graphs, {
      runners,
      samples: evaluationSet,
      fullGraphLogits,
      outOfScopeLabel: tier.calibration.outOfScope?.label,
      maxLossPoints,
      onProgress: (done, total) => onProgress(`stages at ${value}`, done, total),
    });
    cuts.push({
      ...cutPoint,
      judgement,
      firstBytes: graphs.first.byteLength,
      ...estimateWork(cutPoint, judgement.exit.coverage, inputBytes),
      graphs,
    });
  }
  return { cuts, inputBytes };
}

/** Sends the smaller of activation and input to the region, which starts over if it gets the input. */
function estimateWork(
  { share, bytesPerRow }: CutPoint,
  exitShare: number,
  inputBytes: number,
): Pick<EvaluatedCut, "work" | "sends"> {
  const sends = bytesPerRow < inputBytes ? "activation" : "input";
  const regionWork = sends === "activation" ? 1 - share : 1;
  return { work: share + (1 - exitShare) * regionWork, sends };
}

function computeMeanInputBytes(
  project: ClassificationProject,
  samples: readonly LabeledSample[],
): number {
  const task = getTask(project.task);
  const totalBytes = samples.reduce(
    (sum, { input }) => sum + task.encodeInput(input).byteLength,
    0,
  );
  return totalBytes / Math.max(1, samples.length);
}

function buildStages(
  model: Model,
  cutPoint: CutPoint,
  head: ExitHead,
  quantization: ActivationQuantization,
): StagedGraphs {
  return {
    first: buildFirstStage(model, cutPoint, head, quantization),
    second: buildSecondStage(model, cutPoint, quantization),
    fp32First: buildFirstStage(model, cutPoint, head, undefined),
    fp32Second: buildSecondStage(model, cutPoint, undefined),
  };
}

async function computeGraphLogits(
  runner: Runner,
  graph: Uint8Array,
  samples: readonly EncodedSample[],
  onProgress: (done: number) => void,
): Promise<Float32Array[]> {
  const session = await runner.open(graph);
  try {
    return await computeLogits(session, samples, onProgress);
  } finally {
    await session.close();
  }
}

/** Returns the cut with the least work. */
export function selectBestCut(cuts: readonly EvaluatedCut[]): EvaluatedCut | undefined {
  return cuts.toSorted((a, b) => a.work - b.work)[0];
}
