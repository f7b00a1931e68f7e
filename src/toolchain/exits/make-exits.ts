// `edgetier model exits`: a region tier's graph cut at some places, an exit head trained and judged at each, and the project
// with one of the first stages as an edge tier, from which the region goes on.

import { coreErrors } from "../../core/common-errors.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import { LOGITS } from "../../cascade/calibration.ts";
import { type ClassificationProject, modelProjectSchema } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { precisionOf } from "../import/operators.ts";
import { makeExam, type Question, sitExam } from "../judge/exam.ts";
import {
  classificationOf,
  fileOf,
  labelsOf,
  preprocessorOf,
  type TierProject,
} from "../judge/project-tier.ts";
import type { Runner } from "../judge/runner.ts";
import type { Sample } from "../judge/samples.ts";
import { type Model, readModel } from "../onnx/model-file.ts";
import { taskByName } from "../../tasks/tasks.ts";
import { findCrossings } from "./crossing.ts";
import { type CutPoint, findCuts } from "./find-cuts.ts";
import { judgeStages, type StageJudgement, type StagedGraphs } from "./judge-stages.ts";
import { learnHeads, type LearnOptions } from "./learn-heads.ts";
import { ACTIVATION, type Crossing, type ExitHead, firstStage, restStage } from "./stages.ts";

export interface ExitsOptions {
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly runtime: Runtime;
  /** What heads are trained on. */
  readonly calibration: readonly Sample[];
  /** What exits are judged and calibrated on; none of them among those. */
  readonly samples: readonly Sample[];
  readonly learning: Omit<LearnOptions, "classes" | "onProgress">;
  readonly maxLossPoints: number;
  readonly onProgress?: (what: string, done: number, of: number) => void;
}

/** A cut, with what comes of it. */
export interface JudgedCut extends CutPoint {
  readonly judgement: StageJudgement;
  readonly firstBytes: number;
  /** What a request costs in all, as a share of the whole graph's multiplications: what exits is spared the rest. */
  readonly work: number;
  /** What crosses to the region where the answer is not sure. */
  readonly sends: "activation" | "input";
  readonly graphs: StagedGraphs;
}

export interface ExitsMade {
  readonly cuts: readonly JudgedCut[];
  /** Mean over the samples, as the task sends them. */
  readonly inputBytes: number;
}

/** Of the region tier with this id, the last one where it is left out. @throws no_such_tier */
export function tierToCut(project: ClassificationProject, id: string | undefined): TierProject {
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
const TRIAL_ROWS = 8;

/** All places at which the tier's graph can be cut. @throws invalid_project, invalid_model_file, session_failed */
export async function cutsOf(
  source: PublishSource,
  project: ClassificationProject,
  tier: TierProject,
  runtime: Runtime,
  samples: readonly Sample[],
): Promise<CutPoint[]> {
  const preprocessor = preprocessorOf(source, project, tier);
  const inputs = samples.slice(0, TRIAL_ROWS).map(({ input }) => input);
  const [shortest = taskByName(project.task).example] = inputs.toSorted(
    (a, b) => sizeOf(preprocessor.encode([a])) - sizeOf(preprocessor.encode([b])),
  );
  return await findCuts(runtime, readModel(fileOf(source, tier.graph)), {
    one: preprocessor.encode([shortest]),
    several: preprocessor.encode(inputs.length > 1 ? inputs : [shortest, shortest]),
  });
}

const sizeOf = (tensors: ReturnType<ReturnType<typeof preprocessorOf>["encode"]>): number =>
  Object.values(tensors).reduce((sum, { data }) => sum + data.length, 0);

/** @throws not_cuttable for a place that is none; invalid_project, session_failed */
export async function makeExits(
  source: PublishSource,
  project: ClassificationProject,
  tier: TierProject,
  places: readonly CutPoint[],
  options: ExitsOptions,
): Promise<ExitsMade> {
  const { runners, runtime, learning, maxLossPoints, onProgress = () => {} } = options;
  const bytes = fileOf(source, tier.graph);
  const model = readModel(bytes);
  const [labels, preprocessor] = [labelsOf(source, project), preprocessorOf(source, project, tier)];
  const [lessons, questions] = [
    makeExam(options.calibration, preprocessor, labels),
    makeExam(options.samples, preprocessor, labels),
  ];

  const heads = await learnHeads(runtime, model, places, lessons, {
    ...learning,
    classes: labels.length,
    onProgress,
  });
  const crossings = await findCrossings(
    runtime,
    model,
    places.map(({ value }) => value),
    lessons.slice(0, RANGE_SAMPLES).map(({ inputs }) => inputs),
  );
  const whole = await answersOf(runners.region, bytes, questions, (done) =>
    onProgress("the whole graph", done, questions.length),
  );
  const task = taskByName(project.task);
  const inputBytes =
    options.samples.reduce((sum, { input }) => sum + task.toBytes(input).byteLength, 0) /
    Math.max(1, options.samples.length);

  const cuts: JudgedCut[] = [];
  for (const [position, place] of places.entries()) {
    const graphs = stagesOf(model, place, heads[position] as ExitHead, crossings.get(place.value));
    const judgement = await judgeStages(graphs, {
      runners,
      questions,
      whole,
      outOfScope: tier.calibration.outOfScope?.label,
      maxLossPoints,
      onProgress: (done, of) => onProgress(`stages at ${place.value}`, done, of),
    });
    const sends = place.bytesPerRow < inputBytes ? "activation" : "input";
    const work =
      place.share + (1 - judgement.exit.share) * (sends === "activation" ? 1 - place.share : 1);
    cuts.push({ ...place, judgement, firstBytes: graphs.first.byteLength, work, sends, graphs });
  }
  return { cuts, inputBytes };
}

/** More change ranges little. */
const RANGE_SAMPLES = 256;

function stagesOf(model: Model, place: CutPoint, head: ExitHead, crossing: Crossing): StagedGraphs {
  return {
    first: firstStage(model, place, head, crossing),
    rest: restStage(model, place, crossing),
    exactFirst: firstStage(model, place, head, undefined),
    exactRest: restStage(model, place, undefined),
  };
}

async function answersOf(
  runner: Runner,
  graph: Uint8Array,
  questions: readonly Question[],
  onProgress: (done: number) => void,
): Promise<Float32Array[]> {
  const session = await runner.open(graph);
  try {
    return await sitExam(session, questions, onProgress);
  } finally {
    await session.close();
  }
}

/** The one with the least work. */
export function bestOf(cuts: readonly JudgedCut[]): JudgedCut | undefined {
  return cuts.toSorted((a, b) => a.work - b.work)[0];
}

export interface WithExit {
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
export function withExit(
  { risk: _former, ...project }: ClassificationProject,
  tier: TierProject,
  cut: JudgedCut,
  id: string,
): WithExit {
  const [firstPath, restPath] = [`artifacts/${id}.onnx`, `artifacts/${tier.id}-from-${id}.onnx`];
  const activation = {
    name: ACTIVATION,
    datatype: typeOfActivation(cut.graphs.first),
    shape: [...cut.shape],
  };
  const { judgement, graphs } = cut;
  const edge = {
    ...tier,
    id,
    place: "edge",
    precision: precisionOf(readModel(graphs.first)),
    graph: firstPath,
    fp16Graph: undefined,
    serving: undefined,
    resumes: undefined,
    p95Ms: undefined, // the whole graph's; `edgetier model calibrate` measures this one's
    outputs: [...tier.outputs.filter(({ name }) => name === LOGITS), activation],
    calibration: judgement.calibration,
    exit: { confidence: judgement.exit.confidence },
    figures: {
      accuracy: rounded(judgement.accuracy),
      exitShare: rounded(judgement.exit.share),
      lossPoints: rounded(judgement.exit.lossPoints),
      shareOfMacs: rounded(cut.share),
      p50MsInWorkerd: rounded(judgement.p50Ms),
      resumedAgreement: rounded(judgement.resumed.agreement),
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
    tiers: others.toSpliced(firstRegion, 0, edge as TierProject),
  });
  if (!parsed.success)
    throw publishingErrors.invalidProject(
      project.model,
      parsed.error.issues.map(({ message }) => message),
    );
  return {
    project: classificationOf(parsed.data),
    files: new Map([
      [firstPath, graphs.first],
      [restPath, graphs.rest],
    ]),
  };
}

function typeOfActivation(first: Uint8Array): "UINT8" | "INT8" {
  const info = readModel(first).graph.output.find(({ name }) => name === ACTIVATION);
  return info?.type?.value.case === "tensorType" && info.type.value.value.elemType === 3
    ? "INT8"
    : "UINT8";
}

const rounded = (value: number): number => Number(value.toFixed(4));
