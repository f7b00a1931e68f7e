// Makes a tier's candidates, has them judged, and chooses the one to publish.

import { reasonOf } from "../../core/errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { scoreLogits, type EncodedSample, computeLogits } from "../evaluate/evaluation-set.ts";
import {
  type CandidateGraph,
  evaluateCandidates,
  type CandidateEvaluation,
  type EvaluationProgress,
} from "../evaluate/evaluate-candidates.ts";
import type { Runner } from "../evaluate/runner.ts";
import { applySteps } from "./apply-steps.ts";
import type { TierPlan } from "./build-plan.ts";

export interface BuildTierOptions {
  /** That the tier is for. */
  readonly runner: Runner;
  /** In which latency is measured as well. */
  readonly otherRunners: readonly Runner[];
  /** For what the techniques compute. */
  readonly runtime: Runtime;
  /** What candidates are judged on. */
  readonly evaluationSet: readonly EncodedSample[];
  /** What ranges are found on; not among the questions. */
  readonly rangeSamples: readonly EncodedSample[];
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
  /** The reference first. */
  readonly evaluations: readonly CandidateEvaluation[];
  /** The best that holds the bounds; the reference where none does. */
  readonly chosen: CandidateGraph;
  /** Its logits to the questions, in the runtime that the tier is for. */
  readonly logits: readonly Float32Array[];
}

/** @param fileOf gives the project's files by their paths @throws invalid_project, session_failed if the reference cannot be made or run */
export async function buildTier(
  plan: TierPlan,
  fileOf: (path: string) => Uint8Array,
  options: BuildTierOptions,
): Promise<BuiltTier> {
  const {
    runner,
    otherRunners: others,
    runtime,
    evaluationSet: questions,
    rangeSamples: calibration,
    rounds,
    onProgress = () => {},
  } = options;
  const making = (candidate: string) => (what: string, done: number, of: number) =>
    onProgress({ kind: "make", candidate, activity: what, done, total: of });
  const tools = { runtime, rangeSamples: calibration.map(({ inputs }) => inputs) };

  const answersOf = async (graph: Uint8Array, what: string) => {
    const session = await runner.open(graph);
    try {
      return await computeLogits(session, questions, (done) =>
        making(what)("answers", done, questions.length),
      );
    } finally {
      await session.close();
    }
  };
  const reference = {
    name: "reference",
    graph: await applySteps(fileOf(plan.source), plan.reference, {
      ...tools,
      measureLossPoints: async () => 0,
      onProgress: making("reference"),
    }),
  };
  let expected: Promise<Float32Array[]> | undefined; // few steps ask
  const lossPoints = async (graph: Uint8Array) => {
    expected ??= answersOf(reference.graph, "reference");
    return scoreLogits(questions, await answersOf(graph, "candidate"), await expected).lossPoints;
  };

  const candidates: CandidateGraph[] = [reference];
  const notMade: CandidateEvaluation[] = [];
  for (const { name, source, steps } of plan.candidates) {
    try {
      const graph = source === undefined ? reference.graph : fileOf(source);
      candidates.push({
        name,
        graph: await applySteps(graph, steps, {
          ...tools,
          measureLossPoints: lossPoints,
          onProgress: making(name),
        }),
      });
    } catch (error) {
      notMade.push({
        name,
        bytes: 0,
        gzipBytes: 0,
        refused: [`it cannot be made: ${reasonOf(error)}`],
      });
    }
  }
  const answers = new Map<CandidateGraph, readonly Float32Array[]>();
  const onAnswers = (candidate: CandidateGraph, own: readonly Float32Array[]) =>
    void answers.set(candidate, own);
  const judged = await evaluateCandidates(candidates, questions, {
    runner,
    otherRunners: others,
    bounds: plan.bounds,
    ...(rounds === undefined ? {} : { rounds }),
    onProgress,
    onLogits: onAnswers,
  });
  const order = ["reference", ...plan.candidates.map(({ name }) => name)];
  const judgements = [...judged, ...notMade].toSorted(
    (a, b) => order.indexOf(a.name) - order.indexOf(b.name),
  );
  const chosen = selectCandidate(judgements, candidates, plan.prefer, runner.name) ?? reference;
  return { tier: plan.tier, evaluations: judgements, chosen, logits: answers.get(chosen) ?? [] };
}

function selectCandidate(
  judgements: readonly CandidateEvaluation[],
  candidates: readonly CandidateGraph[],
  prefer: TierPlan["prefer"],
  runtime: string,
): CandidateGraph | undefined {
  const costOf = ({ bytes, measured }: CandidateEvaluation) =>
    prefer === "bytes" ? bytes : (measured?.latency[runtime]?.ratio ?? Number.POSITIVE_INFINITY);
  const [best] = judgements
    .filter(({ name, refused }) => name !== "reference" && refused.length === 0)
    .toSorted((a, b) => costOf(a) - costOf(b));
  return candidates.find(({ name }) => name === best?.name);
}
