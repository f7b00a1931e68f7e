// `edgetier model build`: builds and evaluates every tier of the plan, puts the chosen graphs into
// the project and calibrates the cascade for them.

import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { type ClassificationProject, modelProjectSchema } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { calibrateCascade } from "../calibrate/calibrate-cascade.ts";
import { applyCascade } from "../calibrate/calibrate-project.ts";
import { selectExitThreshold } from "../calibrate/exit-threshold.ts";
import { fitTemperature, toLabeledLogits } from "../calibrate/logit-scaling.ts";
import { encodeSamples, type EncodedSample } from "../evaluate/evaluation-set.ts";
import type { LabeledSample } from "../evaluate/labeled-samples.ts";
import {
  requireClassification,
  requireProjectFile,
  readProjectLabels,
  createTierPreprocessor,
  type ProjectTier,
} from "../evaluate/project-tier.ts";
import type { Runner } from "../evaluate/runner.ts";
import { detectPrecision } from "../import/static-checks.ts";
import { parseModel } from "../onnx/model-file.ts";
import type { BuildPlan } from "./build-plan.ts";
import { type BuildProgress, type BuiltTier, buildTier } from "./build-tier.ts";

export interface BuildProjectOptions {
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly runtime: Runtime;
  /** Samples for the evaluation of candidates and for the calibration of the cascade. */
  readonly evaluationSamples: readonly LabeledSample[];
  /** Samples for quantization ranges. */
  readonly rangeSamples: readonly LabeledSample[];
  /** Number of timing rounds. */
  readonly rounds?: number;
  readonly onProgress?: (tier: string, event: BuildProgress) => void;
}

export interface BuiltProject {
  readonly tiers: readonly BuiltTier[];
  /**
   * The project with the chosen graphs under their tiers' file names, and with the fields that
   * follow from them.
   */
  readonly source: PublishSource & { readonly project: ClassificationProject };
}

/** A build in progress: its inputs and the evaluation set of each tier. */
interface Build {
  readonly source: PublishSource;
  readonly project: ClassificationProject;
  readonly plan: BuildPlan;
  readonly options: BuildProjectOptions;
  readonly labels: readonly string[];
  readonly evaluationSets: ReadonlyMap<string, readonly EncodedSample[]>;
}

/**
 * Accuracy points that an exit may cost the cascade. A validation split of some thousand samples
 * resolves no less.
 */
const MAX_EXIT_LOSS_POINTS = 0.2;

/**
 * Calibrates confidences for the plan's tiers and chooses exits for the plan's risk. Without a
 * risk, a tier with an out-of-scope rule keeps its calibration and exit, because its recipe
 * determined them.
 * @throws invalid_project, session_failed, risk_not_reached
 */
export async function buildProject(
  source: PublishSource,
  project: ClassificationProject,
  plan: BuildPlan,
  options: BuildProjectOptions,
): Promise<BuiltProject> {
  rejectUnknownTiers(plan, project);
  const labels = readProjectLabels(source, project);
  const evaluationSets = new Map(
    project.tiers
      .filter(({ id }) => plan.tiers.some(({ tier }) => tier === id))
      .map((tier) => [
        tier.id,
        encodeSamples(
          options.evaluationSamples,
          createTierPreprocessor(source, project, tier),
          labels,
        ),
      ]),
  );
  const build: Build = { source, project, plan, options, labels, evaluationSets };
  const builtTiers = await buildTiers(build);
  const { tiers: changedTiers, files } = replaceGraphs(build, builtTiers);
  // A previous guarantee covers the previous graphs only, so it is removed unless the plan states a
  // risk.
  const fitted =
    plan.risk === undefined
      ? { risk: undefined, tiers: selectExits(changedTiers, builtTiers, evaluationSets) }
      : controlRisk(build, changedTiers, builtTiers, plan.risk);
  const changedProject = requireClassification(modelProjectSchema.parse({ ...project, ...fitted }));
  return { tiers: builtTiers, source: { ...source, project: changedProject, files } };
}

function rejectUnknownTiers(plan: BuildPlan, project: ClassificationProject): void {
  const unknown = plan.tiers.find(({ tier }) => project.tiers.every(({ id }) => id !== tier));
  if (unknown !== undefined)
    throw publishingErrors.invalidProject(project.model, [
      `build.json plans tier ${unknown.tier}, which the project does not have; its tiers are ${project.tiers.map(({ id }) => id).join(", ")}`,
    ]);
}

async function buildTiers(build: Build): Promise<BuiltTier[]> {
  const { source, project, plan, options, labels } = build;
  const builtTiers: BuiltTier[] = [];
  for (const tier of project.tiers) {
    const tierPlan = plan.tiers.find((planned) => planned.tier === tier.id);
    if (tierPlan === undefined) continue;
    builtTiers.push(
      await buildTier(tierPlan, (path) => requireProjectFile(source, path), {
        runner: options.runners[tier.place],
        otherRunners: tier.place === "edge" ? [options.runners.region] : [],
        runtime: options.runtime,
        evaluationSet: build.evaluationSets.get(tier.id) ?? [],
        rangeSamples: encodeSamples(
          options.rangeSamples,
          createTierPreprocessor(source, project, tier),
          labels,
        ),
        ...(options.rounds === undefined ? {} : { rounds: options.rounds }),
        onProgress: (event) => options.onProgress?.(tier.id, event),
      }),
    );
  }
  return builtTiers;
}

function replaceGraphs(
  { source, project, evaluationSets }: Build,
  builtTiers: readonly BuiltTier[],
): {
  readonly tiers: readonly ProjectTier[];
  readonly files: Map<string, Uint8Array>;
} {
  const files = new Map(source.files);
  const tiers = project.tiers.map((tier): ProjectTier => {
    const built = findBuiltTier(builtTiers, tier.id);
    if (built === undefined) return tier;
    files.set(tier.graph, built.chosen.graph);
    return recalibrateTier(
      {
        ...tier,
        precision: detectPrecision(parseModel(built.chosen.graph)),
        figures: toTierFigures(built),
      },
      built,
      evaluationSets.get(tier.id) ?? [],
    );
  });
  return { tiers, files };
}

const findBuiltTier = (
  builtTiers: readonly BuiltTier[],
  id: string | undefined,
): BuiltTier | undefined => builtTiers.find(({ tier }) => tier === id);

function controlRisk(
  build: Build,
  tiers: readonly ProjectTier[],
  builtTiers: readonly BuiltTier[],
  risk: NonNullable<BuildPlan["risk"]>,
): Pick<ClassificationProject, "risk"> & { readonly tiers: readonly ProjectTier[] } {
  const { labels, options, project } = build;
  const cascade = calibrateCascade(
    tiers.map((tier) => toTierPredictions(build, builtTiers, tier)),
    { labels, groundTruth: options.evaluationSamples.map(({ label }) => label) },
    { ...risk, deadlineMs: project.deadlineMs },
  );
  return {
    tiers: applyCascade(tiers, cascade),
    ...(cascade.risk === undefined ? {} : { risk: cascade.risk }),
  };
}

function toTierPredictions(
  { project, options }: Build,
  builtTiers: readonly BuiltTier[],
  { id, place, calibration }: ProjectTier,
) {
  const built = findBuiltTier(builtTiers, id);
  if (built === undefined)
    throw publishingErrors.invalidProject(project.model, [
      `build.json states a risk but does not plan tier ${id}; exits are chosen for all tiers together, so plan every tier or remove the risk`,
    ]);
  if (calibration.outOfScope?.score.kind === "output")
    throw publishingErrors.invalidProject(project.model, [
      `tier ${id} reads its out-of-scope score from an output; remove the risk from build.json and run \`edgetier model calibrate\``,
    ]);
  const chosen = built.evaluations.find(({ name }) => name === built.chosen.name);
  const { p50Ms = 0, p95Ms = 0 } = chosen?.measured?.latency[options.runners[place].name] ?? {};
  const outputs = built.logits.map((data) => ({
    [LOGITS_OUTPUT]: { datatype: "FP32" as const, shape: [1, data.length], data },
  }));
  return { id, calibration, outputs, profile: { cost: p50Ms, meanMs: p50Ms, p99Ms: p95Ms } };
}

/** Figures of the chosen candidate, as model.json states them. */
function toTierFigures({ evaluations, chosen }: BuiltTier): Record<string, number> {
  const measured = evaluations.find(({ name }) => name === chosen.name)?.measured;
  if (measured === undefined) return {};
  const latencies = Object.entries(measured.latency).map(
    ([runtime, { p50Ms }]) =>
      [`p50MsIn${runtime === "node" ? "Node" : "Workerd"}`, Number(p50Ms.toPrecision(4))] as const,
  );
  return {
    accuracy: Number(measured.accuracy.toFixed(4)),
    lossPoints: Number(measured.lossPoints.toFixed(2)),
    ...Object.fromEntries(latencies),
  };
}

function recalibrateTier(
  tier: ProjectTier,
  { logits }: BuiltTier,
  evaluationSet: readonly EncodedSample[],
): ProjectTier {
  if (tier.calibration.outOfScope !== undefined) return tier;
  return {
    ...tier,
    calibration: { temperature: fitTemperature(toLabeledLogits(evaluationSet, logits)) },
  };
}

/**
 * Chooses each exit against the next tier. Both tiers must be built, because their logits are
 * needed.
 */
function selectExits(
  tiers: readonly ProjectTier[],
  builtTiers: readonly BuiltTier[],
  evaluationSets: Build["evaluationSets"],
): ProjectTier[] {
  return tiers.map((tier, position) => {
    const built = findBuiltTier(builtTiers, tier.id);
    const next = findBuiltTier(builtTiers, tiers[position + 1]?.id);
    if (
      built === undefined ||
      next === undefined ||
      tier.exit === null ||
      tier.calibration.outOfScope !== undefined
    )
      return tier;
    const { confidence } = selectExitThreshold(
      toLabeledLogits(evaluationSets.get(tier.id) ?? [], built.logits),
      tier.calibration.temperature,
      next.logits,
      MAX_EXIT_LOSS_POINTS,
    );
    return { ...tier, exit: { confidence } };
  });
}
