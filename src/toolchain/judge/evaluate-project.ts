// Evaluates a model project on labelled samples: every tier answers every sample, one at a time, in the runtime that would
// serve it.

import { toolchainErrors } from "../errors.ts";
import { type Answer, readAnswers, uncalibrated } from "../../cascade/calibration.ts";
import { exits } from "../../cascade/exit.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { type Asked, askTier, timedSamples } from "./ask-tier.ts";
import { type CascadeFigures, cascadeFigures, type TierAnswers } from "./cascade-figures.ts";
import { type Confusion, confusionOf } from "./confusion.ts";
import { labelsOf, type TierProject } from "./project-tier.ts";
import type { Runner } from "./runner.ts";
import type { Sample } from "./samples.ts";
import { type Percentiles, percentiles, type SloVerdict, sloVerdict } from "./slo.ts";

export interface Evaluation extends CascadeFigures {
  readonly model: string;
  /** By tier; of preprocessing, graph and reading the answer. */
  readonly latency: Readonly<Record<string, Percentiles>>;
  /** The tiers that a sample asks, one after the other; without the way to a region. */
  readonly cascadeLatency: Percentiles;
  readonly slo: SloVerdict;
  readonly confusion: Confusion;
  /** The cascade's, one per sample. */
  readonly answers: readonly string[];
}

export interface AskOptions {
  /** For edge tiers and for region tiers. */
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly onProgress?: (event: {
    readonly tier: string;
    readonly done: number;
    readonly of: number;
  }) => void;
}

/** What is not measured here. */
export interface PriceOptions {
  /** The way to a region and back; nothing by default. */
  readonly regionMs?: number | undefined;
  /** What one input costs, by tier and in any unit; the measured time of its computing where left out. */
  readonly costs?: Readonly<Record<string, number>> | undefined;
}

/** A project's tiers with their answers to the same samples. */
export interface AskedProject {
  readonly project: ClassificationProject;
  readonly labels: readonly string[];
  /** The right label of each sample. */
  readonly truth: readonly string[];
  readonly tiers: readonly { readonly tier: TierProject; readonly asked: Asked }[];
}

/** @throws invalid_samples for a label that the model does not have; session_failed */
export async function askProject(
  source: PublishSource,
  project: ClassificationProject,
  samples: readonly Sample[],
  { runners, onProgress = () => {} }: AskOptions,
): Promise<AskedProject> {
  const labels = labelsOf(source, project);
  const truth = samples.map(({ label }) => label);
  const oosLabel = oosLabelOf(project);
  const unknown = truth.find((label) => label !== oosLabel && !labels.includes(label));
  if (unknown !== undefined)
    throw toolchainErrors.invalidSamples(project.model, [
      `no tier has the label ${JSON.stringify(unknown)}; there are ${labels.slice(0, 10).join(", ")}${labels.length > 10 ? ", …" : ""}`,
    ]);
  const tiers: { tier: TierProject; asked: Asked }[] = [];
  for (const tier of project.tiers) {
    const asked = await askTier(source, project, tier, samples, runners[tier.place], (done) =>
      onProgress({ tier: tier.id, done, of: samples.length }),
    );
    tiers.push({ tier, asked });
  }
  return { project, labels, truth, tiers };
}

/** @throws invalid_samples for a label that the model does not have; session_failed */
export async function evaluateProject(
  source: PublishSource,
  project: ClassificationProject,
  samples: readonly Sample[],
  options: AskOptions & PriceOptions,
): Promise<Evaluation> {
  return evaluateAsked(await askProject(source, project, samples, options), options);
}

export function evaluateAsked(all: AskedProject, prices: PriceOptions = {}): Evaluation {
  const { project, truth } = all;
  const tiers = tierAnswers(all, prices);
  const timed = timedSamples(truth.length);
  const answeredBy = truth.map((_, sample) =>
    tiers.findIndex((tier) => exits(answerOf(tier, sample), tier.exit)),
  );
  const cascadeLatency = percentiles(
    timed.map((sample, index) =>
      all.tiers
        .slice(0, (answeredBy[sample] ?? 0) + 1)
        .reduce((sum, { asked }) => sum + (asked.ms[index] ?? 0), 0),
    ),
  );
  const final = truth.map((_, sample) => answerOf(tiers[answeredBy[sample] ?? 0], sample).label);
  return {
    model: project.model,
    ...cascadeFigures(tiers, truth, oosLabelOf(project)),
    latency: Object.fromEntries(
      all.tiers.map(({ tier, asked }) => [tier.id, percentiles(asked.ms)]),
    ),
    cascadeLatency,
    slo: sloVerdict(project.sloMs, cascadeLatency),
    confusion: confusionOf(final, truth),
    answers: final,
  };
}

function tierAnswers(
  { labels, tiers }: AskedProject,
  { regionMs = 0, costs = {} }: PriceOptions,
): TierAnswers[] {
  return tiers.map(({ tier, asked }) => ({
    id: tier.id,
    place: tier.place,
    exit: tier.exit,
    answers: asked.answers,
    uncalibrated: asked.outputs.flatMap((outputs) =>
      readAnswers(outputs, 1, labels, uncalibrated(tier.calibration), 1),
    ),
    msPerInput: asked.ms.reduce((sum, one) => sum + one, 0) / asked.ms.length,
    wayMs: tier.place === "region" ? regionMs : 0,
    ...(costs[tier.id] === undefined ? {} : { cost: costs[tier.id] }),
  }));
}

/** As calibrating takes them (build/calibrate). */
export function pricedTiers({ tiers }: AskedProject, { regionMs = 0, costs = {} }: PriceOptions) {
  return tiers.map(({ tier, asked }) => {
    const meanMs = asked.ms.reduce((sum, one) => sum + one, 0) / asked.ms.length;
    const wayMs = tier.place === "region" ? regionMs : 0;
    const price = {
      cost: costs[tier.id] ?? meanMs,
      meanMs: meanMs + wayMs,
      p99Ms: percentiles(asked.ms).p99Ms + wayMs,
    };
    return { id: tier.id, calibration: tier.calibration, outputs: asked.outputs, price };
  });
}

/** The label that marks a sample as out of scope; undefined where nothing is. */
export function oosLabelOf({ tiers }: ClassificationProject): string | undefined {
  return tiers.flatMap(({ calibration }) => calibration.outOfScope?.label ?? [])[0];
}

function answerOf(tier: TierAnswers | undefined, sample: number): Answer {
  const answer = tier?.answers[sample];
  if (answer === undefined)
    throw new RangeError(`tier ${tier?.id ?? "?"} has no answer to sample ${sample}`);
  return answer;
}
