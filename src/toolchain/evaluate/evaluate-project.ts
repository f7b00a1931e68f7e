// Evaluates a model project on labeled samples: every tier answers every sample, one at a time, in the runtime that would
// serve it.

import {
  type TierPrediction,
  decodePredictions,
  withoutCalibration,
} from "../../cascade/calibration.ts";
import { shouldExit } from "../../cascade/early-exit.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { toolchainErrors } from "../errors.ts";
import { type CascadeMetrics, computeCascadeMetrics, type TierAnswers } from "./cascade-metrics.ts";
import { type ConfusionMatrix, computeConfusionMatrix } from "./confusion-matrix.ts";
import type { LabeledSample } from "./labeled-samples.ts";
import { readProjectLabels, type ProjectTier } from "./project-tier.ts";
import { type TierRun, runTier, selectTimedSamples } from "./run-tier.ts";
import type { Runner } from "./runner.ts";
import { type LatencyPercentiles, computePercentiles, type SloResult, checkSlo } from "./slo.ts";

export interface Evaluation extends CascadeMetrics {
  readonly model: string;
  /** Latency of preprocessing, graph and postprocessing, by tier. */
  readonly latency: Readonly<Record<string, LatencyPercentiles>>;
  /** Total latency of the tiers that a sample passes through, without the network. */
  readonly cascadeLatency: LatencyPercentiles;
  readonly slo: SloResult;
  readonly confusion: ConfusionMatrix;
  /** Labels that the cascade answers, one per sample. */
  readonly answers: readonly string[];
}

export interface RunProjectOptions {
  /** Runtimes of edge tiers and of region tiers. */
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly onProgress?: (event: {
    readonly tier: string;
    readonly done: number;
    readonly of: number;
  }) => void;
}

/** Costs that an evaluation does not measure. */
export interface CostModel {
  /** Network round trip to a region; 0 by default. */
  readonly regionMs?: number | undefined;
  /** Cost of one input by tier, in any unit; the measured computing time by default. */
  readonly costs?: Readonly<Record<string, number>> | undefined;
}

/** A project's tiers with their answers to the same samples. */
export interface ProjectRun {
  readonly project: ClassificationProject;
  readonly labels: readonly string[];
  /** The right label of each sample. */
  readonly groundTruth: readonly string[];
  readonly tiers: readonly { readonly tier: ProjectTier; readonly tierRun: TierRun }[];
}

/** @throws invalid_samples for a label that the model does not have; session_failed */
export async function runProjectTiers(
  source: PublishSource,
  project: ClassificationProject,
  samples: readonly LabeledSample[],
  { runners, onProgress = () => {} }: RunProjectOptions,
): Promise<ProjectRun> {
  const labels = readProjectLabels(source, project);
  const groundTruth = samples.map(({ label }) => label);
  const oosLabel = oosLabelOf(project);
  const unknown = groundTruth.find((label) => label !== oosLabel && !labels.includes(label));
  if (unknown !== undefined)
    throw toolchainErrors.invalidSamples(project.model, [
      `${JSON.stringify(unknown)} is not a label of the model, whose labels are ${labels.slice(0, 10).join(", ")}${labels.length > 10 ? ", …" : ""}`,
    ]);
  const tiers: { tier: ProjectTier; tierRun: TierRun }[] = [];
  for (const tier of project.tiers) {
    const tierRun = await runTier(source, project, tier, samples, runners[tier.place], (done) =>
      onProgress({ tier: tier.id, done, of: samples.length }),
    );
    tiers.push({ tier, tierRun });
  }
  return { project, labels, groundTruth, tiers };
}

/** @throws invalid_samples for a label that the model does not have; session_failed */
export async function evaluateProject(
  source: PublishSource,
  project: ClassificationProject,
  samples: readonly LabeledSample[],
  options: RunProjectOptions & CostModel,
): Promise<Evaluation> {
  return evaluateRun(await runProjectTiers(source, project, samples, options), options);
}

/** Computes the evaluation from the tiers' answers, without running anything. */
export function evaluateRun(run: ProjectRun, costs: CostModel = {}): Evaluation {
  const { project, groundTruth } = run;
  const tiers = collectTierAnswers(run, costs);
  const answeredBy = groundTruth.map((_, sample) =>
    tiers.findIndex((tier) => shouldExit(requireAnswer(tier, sample), tier.exit)),
  );
  const cascadeLatency = computePercentiles(
    selectTimedSamples(groundTruth.length).map((sample, index) =>
      run.tiers
        .slice(0, (answeredBy[sample] ?? 0) + 1)
        .reduce((sum, { tierRun }) => sum + (tierRun.latenciesMs[index] ?? 0), 0),
    ),
  );
  const answers = groundTruth.map(
    (_, sample) => requireAnswer(tiers[answeredBy[sample] ?? 0], sample).label,
  );
  return {
    model: project.model,
    ...computeCascadeMetrics(tiers, groundTruth, oosLabelOf(project)),
    latency: Object.fromEntries(
      run.tiers.map(({ tier, tierRun }) => [tier.id, computePercentiles(tierRun.latenciesMs)]),
    ),
    cascadeLatency,
    slo: checkSlo(project.sloMs, cascadeLatency),
    confusion: computeConfusionMatrix(answers, groundTruth),
    answers,
  };
}

function collectTierAnswers(
  { labels, tiers }: ProjectRun,
  { regionMs = 0, costs = {} }: CostModel,
): TierAnswers[] {
  return tiers.map(({ tier, tierRun }) => ({
    id: tier.id,
    place: tier.place,
    exit: tier.exit,
    answers: tierRun.answers,
    uncalibrated: tierRun.outputs.flatMap((outputs) =>
      decodePredictions(outputs, 1, labels, withoutCalibration(tier.calibration), 1),
    ),
    msPerInput: computeMean(tierRun.latenciesMs),
    networkMs: tier.place === "region" ? regionMs : 0,
    ...(costs[tier.id] === undefined ? {} : { cost: costs[tier.id] }),
  }));
}

const computeMean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

/** Creates the input of a calibration (toolchain/calibrate). */
export function createCalibrationTiers(
  { tiers }: ProjectRun,
  { regionMs = 0, costs = {} }: CostModel,
) {
  return tiers.map(({ tier, tierRun }) => {
    const meanMs = computeMean(tierRun.latenciesMs);
    const networkMs = tier.place === "region" ? regionMs : 0;
    const profile = {
      cost: costs[tier.id] ?? meanMs,
      meanMs: meanMs + networkMs,
      p99Ms: computePercentiles(tierRun.latenciesMs).p99Ms + networkMs,
    };
    return { id: tier.id, calibration: tier.calibration, outputs: tierRun.outputs, profile };
  });
}

/** The label that marks a sample as out of scope; undefined if the model has none. */
export function oosLabelOf({ tiers }: ClassificationProject): string | undefined {
  return tiers.flatMap(({ calibration }) => calibration.outOfScope?.label ?? [])[0];
}

function requireAnswer(tier: TierAnswers | undefined, sample: number): TierPrediction {
  const answer = tier?.answers[sample];
  if (answer === undefined)
    throw new RangeError(`tier ${tier?.id ?? "?"} has no answer to sample ${sample}`);
  return answer;
}
