// Builds a tier: makes its candidates, has them evaluated and chooses the one to publish.

import { reasonOf } from "../../core/errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import {
  type CandidateGraph,
  evaluateCandidates,
  type CandidateEvaluation,
  type EvaluationProgress,
} from "../evaluate/evaluate-candidates.ts";
import { scoreLogits, type EncodedSample, computeLogits } from "../evaluate/evaluation-set.ts";
import type { Runner } from "../evaluate/runner.ts";
import { applySteps, type StepContext } from "./apply-steps.ts";
import type { TierPlan } from "./build-plan.ts";

export interface BuildTierOptions {
  /** Runner of the tier's own runtime. */
  readonly runner: Runner;
  /** Further runners that measure latency. */
  readonly otherRunners: readonly Runner[];
  /** Runtime in which the techniques compute. */
  readonly runtime: Runtime;
  readonly evaluationSet: readonly EncodedSample[];
  /** Samples for quantization ranges, disjoint from the evaluation set. */
  readonly rangeSamples: readonly EncodedSample[];
  /** Number of timing rounds. */
  readonly rounds?: number;
  readonly onProgress?: (event: BuildProgress) => void;
}

export type BuildProgress =
  | {
      readonly kind: "make";
      readonly candidate: string;
      readonly activity: string;
      readonly done: number;
      readonly total: number;
    }
  | EvaluationProgress;

export interface BuiltTier {
  readonly tier: string;
  /** Evaluations in the order of the plan, the reference first. */
  readonly evaluations: readonly CandidateEvaluation[];
  /** The best candidate within the bounds, or the reference if there is none. */
  readonly chosen: CandidateGraph;
  /** Logits of the chosen graph on the evaluation set, in the tier's runtime. */
  readonly logits: readonly Float32Array[];
}

interface CandidateSet {
  /** Candidates that could be made, the reference first. */
  readonly made: readonly [reference: CandidateGraph, ...CandidateGraph[]];
  /** Evaluations of the candidates that could not be made. */
  readonly failed: readonly CandidateEvaluation[];
}

/**
 * @param readGraph returns a file of the project by its path
 * @throws invalid_project, session_failed if the reference cannot be made or run
 */
export async function buildTier(
  plan: TierPlan,
  readGraph: (path: string) => Uint8Array,
  options: BuildTierOptions,
): Promise<BuiltTier> {
  const { runner, evaluationSet, rounds, onProgress = () => {} } = options;
  const { made, failed } = await makeCandidates(plan, readGraph, options);
  const logits = new Map<CandidateGraph, readonly Float32Array[]>();
  const evaluated = await evaluateCandidates(made, evaluationSet, {
    runner,
    otherRunners: options.otherRunners,
    bounds: plan.bounds,
    ...(rounds === undefined ? {} : { rounds }),
    onProgress,
    onLogits: (candidate, candidateLogits) => void logits.set(candidate, candidateLogits),
  });
  const order = ["reference", ...plan.candidates.map(({ name }) => name)];
  const evaluations = [...evaluated, ...failed].toSorted(
    (a, b) => order.indexOf(a.name) - order.indexOf(b.name),
  );
  const chosen = selectCandidate(evaluations, made, plan.prefer, runner.name) ?? made[0];
  return { tier: plan.tier, evaluations, chosen, logits: logits.get(chosen) ?? [] };
}

async function makeCandidates(
  plan: TierPlan,
  readGraph: (path: string) => Uint8Array,
  options: BuildTierOptions,
): Promise<CandidateSet> {
  const { runtime, onProgress = () => {} } = options;
  const rangeSamples = options.rangeSamples.map(({ inputs }) => inputs);
  const createStepContext = (
    candidate: string,
    measureLossPoints: StepContext["measureLossPoints"],
  ): StepContext => ({
    runtime,
    rangeSamples,
    measureLossPoints,
    onProgress: (activity, done, total) =>
      onProgress({ kind: "make", candidate, activity, done, total }),
  });

  const reference: CandidateGraph = {
    name: "reference",
    graph: await applySteps(
      readGraph(plan.source),
      plan.reference,
      createStepContext("reference", async () => 0),
    ),
  };
  const measureLossPoints = createLossMeter(reference, options);
  const made: [CandidateGraph, ...CandidateGraph[]] = [reference];
  const failed: CandidateEvaluation[] = [];
  for (const { name, source, steps } of plan.candidates) {
    try {
      const graph = source === undefined ? reference.graph : readGraph(source);
      const context = createStepContext(name, measureLossPoints);
      made.push({ name, graph: await applySteps(graph, steps, context) });
    } catch (error) {
      failed.push({
        name,
        bytes: 0,
        gzipBytes: 0,
        refused: [`it cannot be made: ${reasonOf(error)}`],
      });
    }
  }
  return { made, failed };
}

/**
 * Measures accuracy losses against the reference. Its logits are computed on first use, because few
 * steps need them.
 */
function createLossMeter(
  reference: CandidateGraph,
  { runner, evaluationSet, onProgress = () => {} }: BuildTierOptions,
): StepContext["measureLossPoints"] {
  const computeAllLogits = async (graph: Uint8Array, candidate: string) => {
    const session = await runner.open(graph);
    try {
      return await computeLogits(session, evaluationSet, (done) =>
        onProgress({
          kind: "make",
          candidate,
          activity: "logits",
          done,
          total: evaluationSet.length,
        }),
      );
    } finally {
      await session.close();
    }
  };
  let referenceLogits: Promise<Float32Array[]> | undefined;
  return async (graph) => {
    referenceLogits ??= computeAllLogits(reference.graph, "reference");
    const logits = await computeAllLogits(graph, "candidate");
    return scoreLogits(evaluationSet, logits, await referenceLogits).lossPoints;
  };
}

function selectCandidate(
  evaluations: readonly CandidateEvaluation[],
  candidates: readonly CandidateGraph[],
  prefer: TierPlan["prefer"],
  runtime: string,
): CandidateGraph | undefined {
  const costOf = ({ bytes, measured }: CandidateEvaluation) =>
    prefer === "bytes" ? bytes : (measured?.latency[runtime]?.ratio ?? Number.POSITIVE_INFINITY);
  const [best] = evaluations
    .filter(({ name, refused }) => name !== "reference" && refused.length === 0)
    .toSorted((a, b) => costOf(a) - costOf(b));
  return candidates.find(({ name }) => name === best?.name);
}
