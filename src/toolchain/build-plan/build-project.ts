// `edgetier model build`: every tier that the plan names, built and judged, the chosen graphs put into the project, and the
// cascade calibrated for them.

import { publishingErrors } from "../../registry/publishing-errors.ts";
import { type ClassificationProject, modelProjectSchema } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { calibrateCascade } from "../calibrate/calibrate-cascade.ts";
import { applyCascade } from "../calibrate/calibrate-project.ts";
import { selectExitThreshold } from "../calibrate/exit-threshold.ts";
import { fitTemperature, toLabeledLogits } from "../calibrate/logit-scaling.ts";
import { encodeSamples, type EncodedSample } from "../evaluate/evaluation-set.ts";
import {
  requireClassification,
  requireProjectFile,
  readProjectLabels,
  createTierPreprocessor,
  type ProjectTier,
} from "../evaluate/project-tier.ts";
import type { Runner } from "../evaluate/runner.ts";
import type { LabeledSample } from "../evaluate/labeled-samples.ts";
import { parseModel } from "../onnx/model-file.ts";
import { detectPrecision } from "../import/static-checks.ts";
import type { BuildPlan } from "./build-plan.ts";
import { type BuildProgress, type BuiltTier, buildTier } from "./build-tier.ts";

export interface BuildProjectOptions {
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly runtime: Runtime;
  /** What candidates are judged and the cascade is calibrated on. */
  readonly evaluationSamples: readonly LabeledSample[];
  /** What ranges are found on. */
  readonly rangeSamples: readonly LabeledSample[];
  readonly rounds?: number;
  readonly onProgress?: (tier: string, event: BuildProgress) => void;
}

export interface BuiltProject {
  readonly tiers: readonly BuiltTier[];
  /** With the chosen graphs, in files of their tiers' names, and what has changed with them. */
  readonly source: PublishSource & { readonly project: ClassificationProject };
}

/** Points that an exit may cost the cascade: as small as a validation part of some thousand samples can tell. */
const MAX_EXIT_LOSS_POINTS = 0.2;

/**
 * Confidences are calibrated anew for the tiers of the plan, and exits chosen for the plan's risk. Where it states none,
 * a tier that tells what is out of scope stays as it is: that has figures of its own, which come from its recipe.
 * @throws invalid_project, session_failed, risk_not_reached
 */
export async function buildProject(
  source: PublishSource,
  project: ClassificationProject,
  plan: BuildPlan,
  options: BuildProjectOptions,
): Promise<BuiltProject> {
  const unknown = plan.tiers.find(({ tier }) => project.tiers.every(({ id }) => id !== tier));
  if (unknown !== undefined)
    throw publishingErrors.invalidProject(project.model, [
      `build.json plans for tier ${unknown.tier}, and there are ${project.tiers.map(({ id }) => id).join(", ")}`,
    ]);
  const labels = readProjectLabels(source, project);
  const questionsOf = (tier: ProjectTier, samples: readonly LabeledSample[]): EncodedSample[] =>
    encodeSamples(samples, createTierPreprocessor(source, project, tier), labels);

  const questions = new Map(
    project.tiers
      .filter(({ id }) => plan.tiers.some(({ tier }) => tier === id))
      .map((tier) => [tier.id, questionsOf(tier, options.evaluationSamples)]),
  );
  const asked = ({ id }: ProjectTier) => questions.get(id) ?? [];

  const built: BuiltTier[] = [];
  for (const tier of project.tiers) {
    const tierPlan = plan.tiers.find((one) => one.tier === tier.id);
    if (tierPlan === undefined) continue;
    const other = tier.place === "edge" ? "region" : "edge";
    built.push(
      await buildTier(tierPlan, (path) => requireProjectFile(source, path), {
        runner: options.runners[tier.place],
        otherRunners: tier.place === "edge" ? [options.runners[other]] : [],
        runtime: options.runtime,
        evaluationSet: asked(tier),
        rangeSamples: questionsOf(tier, options.rangeSamples),
        ...(options.rounds === undefined ? {} : { rounds: options.rounds }),
        onProgress: (event) => options.onProgress?.(tier.id, event),
      }),
    );
  }

  const files = new Map(source.files);
  const changed = project.tiers.map((tier): ProjectTier => {
    const own = built.find((one) => one.tier === tier.id);
    if (own === undefined) return tier;
    files.set(tier.graph, own.chosen.graph);
    return recalibrateTier(
      {
        ...tier,
        precision: detectPrecision(parseModel(own.chosen.graph)),
        figures: toTierFigures(own),
      },
      own,
      asked(tier),
    );
  });
  const truth = options.evaluationSamples.map(({ label }) => label);
  // What was promised of the graphs before is not promised of these.
  const fitted =
    plan.risk === undefined
      ? { risk: undefined, tiers: selectExits(changed, built, asked) }
      : withRisk(plan.risk);
  const changedProject = requireClassification(modelProjectSchema.parse({ ...project, ...fitted }));
  return { tiers: built, source: { ...source, project: changedProject, files } };

  function withRisk(
    risk: NonNullable<BuildPlan["risk"]>,
  ): Pick<ClassificationProject, "risk"> & { readonly tiers: readonly ProjectTier[] } {
    const cascade = calibrateCascade(
      changed.map(askedTier),
      { labels, groundTruth: truth },
      { ...risk, deadlineMs: project.deadlineMs },
    );
    return {
      tiers: applyCascade(changed, cascade),
      ...(cascade.risk === undefined ? {} : { risk: cascade.risk }),
    };
  }

  function askedTier({ id, place, calibration }: ProjectTier) {
    const own = built.find(({ tier }) => tier === id);
    if (own === undefined)
      throw publishingErrors.invalidProject(project.model, [
        `build.json states a risk, and does not plan for tier ${id}: exits are chosen for all tiers together`,
      ]);
    if (calibration.outOfScope?.score.kind === "output")
      throw publishingErrors.invalidProject(project.model, [
        `tier ${id} reads what is out of scope from an output: leave the risk to \`edgetier model calibrate\``,
      ]);
    const { p50Ms = 0, p95Ms = 0 } =
      own.evaluations.find(({ name }) => name === own.chosen.name)?.measured?.latency[
        options.runners[place].name
      ] ?? {};
    const outputs = own.logits.map((data) => ({
      [LOGITS_OUTPUT]: { datatype: "FP32" as const, shape: [1, data.length], data },
    }));
    return { id, calibration, outputs, profile: { cost: p50Ms, meanMs: p50Ms, p99Ms: p95Ms } };
  }
}

/** Of the chosen candidate. */
function toTierFigures({ evaluations: judgements, chosen }: BuiltTier): Record<string, number> {
  const judgement = judgements.find(({ name }) => name === chosen.name);
  const { measured } = judgement ?? {};
  if (judgement === undefined || measured === undefined) return {};
  const times = Object.entries(measured.latency).map(
    ([runtime, { p50Ms }]) =>
      [`p50MsIn${runtime === "node" ? "Node" : "Workerd"}`, Number(p50Ms.toPrecision(4))] as const,
  );
  return {
    accuracy: Number(measured.accuracy.toFixed(4)),
    lossPoints: Number(measured.lossPoints.toFixed(2)),
    ...Object.fromEntries(times),
  };
}

function recalibrateTier(
  tier: ProjectTier,
  { logits: answers }: BuiltTier,
  questions: readonly EncodedSample[],
): ProjectTier {
  if (tier.calibration.outOfScope !== undefined) return tier;
  return {
    ...tier,
    calibration: { temperature: fitTemperature(toLabeledLogits(questions, answers)) },
  };
}

/** Each tier against the next; both must have been built, as their answers are needed. */
function selectExits(
  tiers: readonly ProjectTier[],
  built: readonly BuiltTier[],
  questionsOf: (tier: ProjectTier) => readonly EncodedSample[],
): ProjectTier[] {
  return tiers.map((tier, position) => {
    const [own, next] = [tier, tiers[position + 1]].map((one) =>
      built.find((candidate) => candidate.tier === one?.id),
    );
    if (
      own === undefined ||
      next === undefined ||
      tier.exit === null ||
      tier.calibration.outOfScope !== undefined
    )
      return tier;
    const { confidence } = selectExitThreshold(
      toLabeledLogits(questionsOf(tier), own.logits),
      tier.calibration.temperature,
      next.logits,
      MAX_EXIT_LOSS_POINTS,
    );
    return { ...tier, exit: { confidence } };
  });
}
