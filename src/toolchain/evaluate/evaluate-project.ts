// Evaluates a model project on labelled samples: every tier answers every sample, one at a time, in the runtime that would
// serve it.

import { toolchainErrors } from "../errors.ts";
import {
  type TierPrediction,
  decodePredictions,
  withoutCalibration,
} from "../../cascade/calibration.ts";
import { shouldExit } from "../../cascade/early-exit.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { type TierRun, runTier, selectTimedSamples } from "./run-tier.ts";
import { type CascadeMetrics, computeCascadeMetrics, type TierAnswers } from "./cascade-metrics.ts";
import { type ConfusionMatrix, computeConfusionMatrix } from "./confusion-matrix.ts";
import { readProjectLabels, type ProjectTier } from "./project-tier.ts";
import type { Runner } from "./runner.ts";
import type { LabeledSample } from "./labeled-samples.ts";
import { type LatencyPercentiles, computePercentiles, type SloResult, checkSlo } from "./slo.ts";

export interface Evaluation extends CascadeMetrics {
  readonly model: string;
  /** By tier; of preprocessing, graph and reading the answer. */
  readonly latency: Readonly<Record<string, LatencyPercentiles>>;
  /** The tiers that a sample asks, one after the other; without the way to a region. */
  readonly cascadeLatency: LatencyPercentiles;
  readonly slo: SloResult;
  readonly confusion: ConfusionMatrix;
  /** The cascade's, one per sample. */
  readonly answers: readonly string[];
}

export interface RunProjectOptions {
  /** For edge tiers and for region tiers. */
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly onProgress?: (event: {
    readonly tier: string;
    readonly done: number;
    readonly of: number;
  }) => void;
}

/** What is not measured here. */
export interface CostModel {
  /** The way to a region and back; nothing by default. */
  readonly regionMs?: number | undefined;
  /** What one input costs, by tier and in any unit; the measured time of its computing where left out. */
  readonly costs?: Readonly<Record<string, number>> | undefined;
}

/** A project's tiers with their answers to the same samples. */
export interface ProjectRun {
  readonly project: ClassificationProject;
  readonly labels: readonly string[];
  /** The right label of each sample. */
  readonly groundTruth: readonly string[];
  readonly tiers: readonly { readonly tier: ProjectTier; readonly asked: TierRun }[];
}

/** @throws invalid_samples for a label that the model does not have; session_failed */
export async function runProjectTiers(
  source: PublishSource,
  project: ClassificationProject,
  samples: readonly LabeledSample[],
  { runners, onProgress = () => {} }: RunProjectOptions,
): Promise<ProjectRun> {
  const labels = readProjectLabels(source, project);
  const truth = samples.map(({ label }) => label);
  const oosLabel = oosLabelOf(project);
  const unknown = truth.find((label) => label !== oosLabel && !labels.includes(label));
  if (unknown !== undefined)
    throw toolchainErrors.invalidSamples(project.model, [
      `no tier has the label ${JSON.stringify(unknown)}; there are ${labels.slice(0, 10).join(", ")}${labels.length > 10 ? ", …" : ""}`,
    ]);
  const tiers: { tier: ProjectTier; asked: TierRun }[] = [];
  for (const tier of project.tiers) {
    const asked = await runTier(source, project, tier, samples, runners[tier.place], (done) =>
      onProgress({ tier: tier.id, done, of: samples.length }),
    );
    tiers.push({ tier, asked });
  }
  return { project, labels, groundTruth: truth, tiers };
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

export function evaluateRun(all: ProjectRun, prices: CostModel = {}): Evaluation {
  const { project, groundTruth: truth } = all;
  const tiers = collectTierAnswers(all, prices);
  const timed = selectTimedSamples(truth.length);
  const answeredBy = truth.map((_, sample) =>
    tiers.findIndex((tier) => shouldExit(answerOf(tier, sample), tier.exit)),
  );
  const cascadeLatency = computePercentiles(
    timed.map((sample, index) =>
      all.tiers
        .slice(0, (answeredBy[sample] ?? 0) + 1)
        .reduce((sum, { asked }) => sum + (asked.latenciesMs[index] ?? 0), 0),
    ),
  );
  const final = truth.map((_, sample) => answerOf(tiers[answeredBy[sample] ?? 0], sample).label);
  return {
    model: project.model,
    ...computeCascadeMetrics(tiers, truth, oosLabelOf(project)),
    latency: Object.fromEntries(
      all.tiers.map(({ tier, asked }) => [tier.id, computePercentiles(asked.latenciesMs)]),
    ),
    cascadeLatency,
    slo: checkSlo(project.sloMs, cascadeLatency),
    confusion: computeConfusionMatrix(final, truth),
    answers: final,
  };
}

function collectTierAnswers(
  { labels, tiers }: ProjectRun,
  { regionMs = 0, costs = {} }: CostModel,
): TierAnswers[] {
  return tiers.map(({ tier, asked }) => ({
    id: tier.id,
    place: tier.place,
    exit: tier.exit,
    answers: asked.answers,
    uncalibrated: asked.outputs.flatMap((outputs) =>
      decodePredictions(outputs, 1, labels, withoutCalibration(tier.calibration), 1),
    ),
    msPerInput: asked.latenciesMs.reduce((sum, one) => sum + one, 0) / asked.latenciesMs.length,
    networkMs: tier.place === "region" ? regionMs : 0,
    ...(costs[tier.id] === undefined ? {} : { cost: costs[tier.id] }),
  }));
}

/** As calibrating takes them (toolchain/calibrate). */
export function createCalibrationTiers(
  { tiers }: ProjectRun,
  { regionMs = 0, costs = {} }: CostModel,
) {
  return tiers.map(({ tier, asked }) => {
    const meanMs = asked.latenciesMs.reduce((sum, one) => sum + one, 0) / asked.latenciesMs.length;
    const wayMs = tier.place === "region" ? regionMs : 0;
    const profile = {
      cost: costs[tier.id] ?? meanMs,
      meanMs: meanMs + wayMs,
      p99Ms: computePercentiles(asked.latenciesMs).p99Ms + wayMs,
    };
    return { id: tier.id, calibration: tier.calibration, outputs: asked.outputs, profile };
  });
}

/** The label that marks a sample as out of scope; undefined where nothing is. */
export function oosLabelOf({ tiers }: ClassificationProject): string | undefined {
  return tiers.flatMap(({ calibration }) => calibration.outOfScope?.label ?? [])[0];
}

function answerOf(tier: TierAnswers | undefined, sample: number): TierPrediction {
  const answer = tier?.answers[sample];
  if (answer === undefined)
    throw new RangeError(`tier ${tier?.id ?? "?"} has no answer to sample ${sample}`);
  return answer;
}
