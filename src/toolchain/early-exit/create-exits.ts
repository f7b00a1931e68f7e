// `edgetier model exits`: a region tier's graph cut at some places, an exit head trained and judged at each, and the project
// with one of the first stages as an edge tier, from which the region goes on.

import { coreErrors } from "../../core/common-errors.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { type ClassificationProject, modelProjectSchema } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { detectPrecision } from "../import/static-checks.ts";
import { encodeSamples, type EncodedSample, computeLogits } from "../evaluate/evaluation-set.ts";
import {
  requireClassification,
  requireProjectFile,
  readProjectLabels,
  createTierPreprocessor,
  type ProjectTier,
} from "../evaluate/project-tier.ts";
import type { Runner } from "../evaluate/runner.ts";
import type { LabeledSample } from "../evaluate/labeled-samples.ts";
import { type Model, parseModel } from "../onnx/model-file.ts";
import { getTask } from "../../tasks/tasks.ts";
import { chooseActivationQuantization } from "./activation-quantization.ts";
import { type CutPoint, findCuts } from "./find-cuts.ts";
import { evaluateStages, type StageEvaluation, type StagedGraphs } from "./evaluate-stages.ts";
import { trainHeads, type TrainHeadsOptions } from "./train-heads.ts";
import {
  ACTIVATION,
  type ActivationQuantization,
  type ExitHead,
  buildFirstStage,
  buildSecondStage,
} from "./stages.ts";

export interface CreateExitsOptions {
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly runtime: Runtime;
  /** What heads are trained on. */
  readonly trainingSamples: readonly LabeledSample[];
  /** What exits are judged and calibrated on; none of them among those. */
  readonly evaluationSamples: readonly LabeledSample[];
  readonly training: Omit<TrainHeadsOptions, "classCount" | "onProgress">;
  readonly maxLossPoints: number;
  readonly onProgress?: (what: string, done: number, of: number) => void;
}

/** A cut, with what comes of it. */
export interface EvaluatedCut extends CutPoint {
  readonly judgement: StageEvaluation;
  readonly firstBytes: number;
  /** What a request costs in all, as a share of the whole graph's multiplications: what exits is spared the rest. */
  readonly work: number;
  /** What crosses to the region where the answer is not sure. */
  readonly sends: "activation" | "input";
  readonly graphs: StagedGraphs;
}

export interface CreatedExits {
  readonly cuts: readonly EvaluatedCut[];
  /** Mean over the samples, as the task sends them. */
  readonly inputBytes: number;
}

/** Of the region tier with this id, the last one where it is left out. @throws no_such_tier */
export function selectTierToCut(
  project: ClassificationProject,
  id: string | undefined,
): ProjectTier {
  const regions = project.tiers.filter(({ place }) => place === "region");
  const tier = id === undefined ? regions.at(-1) : regions.find((one) => one.id === id);
  if (tier === undefined)
    throw coreErrors.noSuchTier(
      project.model,
      id ?? "of a region",
      regions.map((one) => one.id),
    );
  return tier;
}

/** Rows that cut points are measured with besides one alone. */
const PROBE_ROWS = 8;

/** All places at which the tier's graph can be cut. @throws invalid_project, invalid_model_file, session_failed */
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

/** @throws not_cuttable for a place that is none; invalid_project, session_failed */
export async function createExits(
  source: PublishSource,
  project: ClassificationProject,
  tier: ProjectTier,
  places: readonly CutPoint[],
  options: CreateExitsOptions,
): Promise<CreatedExits> {
  const { runners, runtime, training: learning, maxLossPoints, onProgress = () => {} } = options;
  const bytes = requireProjectFile(source, tier.graph);
  const model = parseModel(bytes);
  const [labels, preprocessor] = [
    readProjectLabels(source, project),
    createTierPreprocessor(source, project, tier),
  ];
  const [lessons, questions] = [
    encodeSamples(options.trainingSamples, preprocessor, labels),
    encodeSamples(options.evaluationSamples, preprocessor, labels),
  ];

  const heads = await trainHeads(runtime, model, places, lessons, {
    ...learning,
    classCount: labels.length,
    onProgress,
  });
  const crossings = await chooseActivationQuantization(
    runtime,
    model,
    places.map(({ value }) => value),
    lessons.slice(0, RANGE_SAMPLES).map(({ inputs }) => inputs),
  );
  const whole = await computeGraphLogits(runners.region, bytes, questions, (done) =>
    onProgress("the whole graph", done, questions.length),
  );
  const task = getTask(project.task);
  const inputBytes =
    options.evaluationSamples.reduce(
      (sum, { input }) => sum + task.encodeInput(input).byteLength,
      0,
    ) / Math.max(1, options.evaluationSamples.length);

  const cuts: EvaluatedCut[] = [];
  for (const [position, place] of places.entries()) {
    const graphs = buildStages(
      model,
      place,
      heads[position] as ExitHead,
      crossings.get(place.value),
    );
    const judgement = await evaluateStages(graphs, {
      runners,
      samples: questions,
      fullGraphLogits: whole,
      outOfScopeLabel: tier.calibration.outOfScope?.label,
      maxLossPoints,
      onProgress: (done, of) => onProgress(`stages at ${place.value}`, done, of),
    });
    const sends = place.bytesPerRow < inputBytes ? "activation" : "input";
    const work =
      place.share + (1 - judgement.exit.coverage) * (sends === "activation" ? 1 - place.share : 1);
    cuts.push({ ...place, judgement, firstBytes: graphs.first.byteLength, work, sends, graphs });
  }
  return { cuts, inputBytes };
}

/** More change ranges little. */
const RANGE_SAMPLES = 256;

function buildStages(
  model: Model,
  place: CutPoint,
  head: ExitHead,
  crossing: ActivationQuantization,
): StagedGraphs {
  return {
    first: buildFirstStage(model, place, head, crossing),
    second: buildSecondStage(model, place, crossing),
    fp32First: buildFirstStage(model, place, head, undefined),
    fp32Second: buildSecondStage(model, place, undefined),
  };
}

async function computeGraphLogits(
  runner: Runner,
  graph: Uint8Array,
  questions: readonly EncodedSample[],
  onProgress: (done: number) => void,
): Promise<Float32Array[]> {
  const session = await runner.open(graph);
  try {
    return await computeLogits(session, questions, onProgress);
  } finally {
    await session.close();
  }
}

/** The one with the least work. */
export function selectBestCut(cuts: readonly EvaluatedCut[]): EvaluatedCut | undefined {
  return cuts.toSorted((a, b) => a.work - b.work)[0];
}

export interface ProjectWithExit {
  readonly project: ClassificationProject;
  /** To be written, by the paths in the project. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/**
 * The project with the first stage as its last edge tier, in the place of one with the same id. A risk that was stated is no
 * longer: it was of other tiers.
 * @param tier whose graph was cut
 * @throws invalid_project
 */
export function addExitTier(
  { risk: _former, ...project }: ClassificationProject,
  tier: ProjectTier,
  cut: EvaluatedCut,
  id: string,
): ProjectWithExit {
  const [firstPath, restPath] = [`artifacts/${id}.onnx`, `artifacts/${tier.id}-from-${id}.onnx`];
  const activation = {
    name: ACTIVATION,
    datatype: activationDatatype(cut.graphs.first),
    shape: [...cut.shape],
  };
  const { judgement, graphs } = cut;
  const edge = {
    ...tier,
    id,
    place: "edge",
    precision: detectPrecision(parseModel(graphs.first)),
    graph: firstPath,
    fp16Graph: undefined,
    serving: undefined,
    resumes: undefined,
    p95Ms: undefined, // the whole graph's; `edgetier model calibrate` measures this one's
    outputs: [...tier.outputs.filter(({ name }) => name === LOGITS_OUTPUT), activation],
    calibration: judgement.calibration,
    exit: { confidence: judgement.exit.confidence },
    figures: {
      accuracy: roundMetric(judgement.accuracy),
      exitShare: roundMetric(judgement.exit.coverage),
      lossPoints: roundMetric(judgement.exit.lossPoints),
      shareOfMacs: roundMetric(cut.share),
      p50MsInWorkerd: roundMetric(judgement.p50Ms),
      resumedAgreement: roundMetric(judgement.resumed.agreement),
    },
  };
  const besides = tier.inputs.filter(({ name }) => cut.besides.includes(name));
  const others = project.tiers
    .filter((one) => one.id !== id)
    .map((one) =>
      one.id === tier.id
        ? { ...one, resumes: { tier: id, graph: restPath, inputs: [activation, ...besides] } }
        : one,
    );
  const firstRegion = others.findIndex(({ place }) => place === "region");
  const parsed = modelProjectSchema.safeParse({
    ...project,
    tiers: others.toSpliced(firstRegion, 0, edge as ProjectTier),
  });
  if (!parsed.success)
    throw publishingErrors.invalidProject(
      project.model,
      parsed.error.issues.map(({ message }) => message),
    );
  return {
    project: requireClassification(parsed.data),
    files: new Map([
      [firstPath, graphs.first],
      [restPath, graphs.second],
    ]),
  };
}

function activationDatatype(first: Uint8Array): "UINT8" | "INT8" {
  const info = parseModel(first).graph.output.find(({ name }) => name === ACTIVATION);
  return info?.type?.value.case === "tensorType" && info.type.value.value.elemType === 3
    ? "INT8"
    : "UINT8";
}

const roundMetric = (value: number): number => Number(value.toFixed(4));
