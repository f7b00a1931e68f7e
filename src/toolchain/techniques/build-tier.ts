// Makes a tier's candidates, has them judged, and chooses the one to publish.

import { reasonOf } from "../../core/errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { mark, type Question, sitExam } from "../judge/exam.ts";
import { type Candidate, judge, type Judgement, type JudgeProgress } from "../judge/judge.ts";
import type { Runner } from "../judge/runner.ts";
import { applySteps } from "./apply-steps.ts";
import type { TierPlan } from "./build-plan.ts";

export interface BuildTierOptions {
  /** That the tier is for. */
  readonly runner: Runner;
  /** In which latency is measured as well. */
  readonly others: readonly Runner[];
  /** For what the techniques compute. */
  readonly runtime: Runtime;
  /** What candidates are judged on. */
  readonly questions: readonly Question[];
  /** What ranges are found on; not among the questions. */
  readonly calibration: readonly Question[];
  readonly rounds?: number;
  readonly onProgress?: (event: BuildProgress) => void;
}

export type BuildProgress =
  | {
      readonly step: "make";
      readonly candidate: string;
      readonly what: string;
      readonly done: number;
      readonly of: number;
    }
  | JudgeProgress;

export interface BuiltTier {
  readonly tier: string;
  /** The reference first. */
  readonly judgements: readonly Judgement[];
  /** The best that holds the bounds; the reference where none does. */
  readonly chosen: Candidate;
  /** Its logits to the questions, in the runtime that the tier is for. */
  readonly answers: readonly Float32Array[];
}

/** @param fileOf gives the project's files by their paths @throws invalid_project, session_failed if the reference cannot be made or run */
export async function buildTier(
  plan: TierPlan,
  fileOf: (path: string) => Uint8Array,
  options: BuildTierOptions,
): Promise<BuiltTier> {
  const {
    runner,
    others,
    runtime,
    questions,
    calibration,
    rounds,
    onProgress = () => {},
  } = options;
  const making = (candidate: string) => (what: string, done: number, of: number) =>
    onProgress({ step: "make", candidate, what, done, of });
  const tools = { runtime, samples: calibration.map(({ inputs }) => inputs) };

  const answersOf = async (graph: Uint8Array, what: string) => {
    const session = await runner.open(graph);
    try {
      return await sitExam(session, questions, (done) =>
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
      lossPoints: async () => 0,
      onProgress: making("reference"),
    }),
  };
  let expected: Promise<Float32Array[]> | undefined; // few steps ask
  const lossPoints = async (graph: Uint8Array) => {
    expected ??= answersOf(reference.graph, "reference");
    return mark(questions, await answersOf(graph, "candidate"), await expected).lossPoints;
  };

  const candidates: Candidate[] = [reference];
  const notMade: Judgement[] = [];
  for (const { name, source, steps } of plan.candidates) {
    try {
      const graph = source === undefined ? reference.graph : fileOf(source);
      candidates.push({
        name,
        graph: await applySteps(graph, steps, { ...tools, lossPoints, onProgress: making(name) }),
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
  const answers = new Map<Candidate, readonly Float32Array[]>();
  const onAnswers = (candidate: Candidate, own: readonly Float32Array[]) =>
    void answers.set(candidate, own);
  const judged = await judge(candidates, questions, {
    runner,
    others,
    bounds: plan.bounds,
    ...(rounds === undefined ? {} : { rounds }),
    onProgress,
    onAnswers,
  });
  const order = ["reference", ...plan.candidates.map(({ name }) => name)];
  const judgements = [...judged, ...notMade].toSorted(
    (a, b) => order.indexOf(a.name) - order.indexOf(b.name),
  );
  const chosen = choose(judgements, candidates, plan.prefer, runner.name) ?? reference;
  return { tier: plan.tier, judgements, chosen, answers: answers.get(chosen) ?? [] };
}

function choose(
  judgements: readonly Judgement[],
  candidates: readonly Candidate[],
  prefer: TierPlan["prefer"],
  runtime: string,
): Candidate | undefined {
  const costOf = ({ bytes, measured }: Judgement) =>
    prefer === "bytes" ? bytes : (measured?.latency[runtime]?.ratio ?? Number.POSITIVE_INFINITY);
  const [best] = judgements
    .filter(({ name, refused }) => name !== "reference" && refused.length === 0)
    .toSorted((a, b) => costOf(a) - costOf(b));
  return candidates.find(({ name }) => name === best?.name);
}
