// Evaluates a model project on labelled samples: every tier answers every sample, one at a time, in the runtime that would
// serve it.

import { type Answer, readAnswers } from "../../cascade/calibration.ts";
import { exits } from "../../cascade/exit.ts";
import { errors } from "../../core/errors.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { type CascadeFigures, cascadeFigures, type TierAnswers } from "./cascade-figures.ts";
import { type Confusion, confusionOf } from "./confusion.ts";
import { fileOf, labelsOf, preprocessorOf, type TierProject } from "./project-tier.ts";
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

export interface EvaluateOptions {
  /** For edge tiers and for region tiers. */
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly onProgress?: (event: { readonly tier: string; readonly done: number; readonly of: number }) => void;
}

interface TimedAnswers extends TierAnswers {
  /** One per sample of `timed`. */
  readonly ms: readonly number[];
}

/** Samples of which the latency is taken. */
const TIMED_SAMPLES = 300;
const WARM_UP_RUNS = 20;

/** @throws invalid_samples for a label that the model does not have; session_failed */
export async function evaluateProject(source: PublishSource, project: ClassificationProject, samples: readonly Sample[], { runners, onProgress = () => {} }: EvaluateOptions): Promise<Evaluation> {
  const labels = labelsOf(source, project);
  const oosLabel = project.tiers.flatMap(({ calibration }) => calibration.outOfScope?.label ?? [])[0];
  const truth = samples.map(({ label }) => label);
  const unknown = truth.find((label) => label !== oosLabel && !labels.includes(label));
  if (unknown !== undefined) throw errors.invalidSamples(project.model, [`no tier has the label ${JSON.stringify(unknown)}; there are ${labels.slice(0, 10).join(", ")}${labels.length > 10 ? ", …" : ""}`]);

  const timed = spread(samples.length, TIMED_SAMPLES);
  const tiers: TimedAnswers[] = [];
  for (const tier of project.tiers) tiers.push(await answersOf(tier));

  const figures = cascadeFigures(tiers, truth, oosLabel);
  const answeredBy = truth.map((_, sample) => tiers.findIndex((tier) => exits(answerOf(tier, sample), tier.exit)));
  const cascadeLatency = percentiles(timed.map((sample, index) => tiers.slice(0, (answeredBy[sample] ?? 0) + 1).reduce((sum, { ms }) => sum + (ms[index] ?? 0), 0)));
  const final = truth.map((_, sample) => answerOf(tiers[answeredBy[sample] ?? 0] as TimedAnswers, sample).label);
  return {
    model: project.model,
    ...figures,
    latency: Object.fromEntries(tiers.map(({ id, ms }) => [id, percentiles(ms)])),
    cascadeLatency,
    slo: sloVerdict(project.sloMs, cascadeLatency),
    confusion: confusionOf(final, truth),
    answers: final,
  };

  async function answersOf(tier: TierProject): Promise<TimedAnswers> {
    const session = await runners[tier.place].open(fileOf(source, tier.graph));
    try {
      const preprocessor = preprocessorOf(source, project, tier);
      const answers: Answer[] = [];
      const aroundMs: number[] = []; // the graph
      for (const [done, { input }] of samples.entries()) {
        const startedAtMs = performance.now();
        const inputs = preprocessor.encode([input]);
        const encodedAtMs = performance.now();
        const outputs = await session.run(inputs);
        const ranAtMs = performance.now();
        answers.push(...readAnswers(outputs, 1, labels, tier.calibration, 1));
        aroundMs.push(encodedAtMs - startedAtMs + performance.now() - ranAtMs);
        onProgress({ tier: tier.id, done: done + 1, of: samples.length });
      }
      const ms: number[] = [];
      for (const [index, sample] of timed.entries()) {
        const inputs = preprocessor.encode([(samples[sample] as Sample).input]);
        if (index === 0) await session.meanMs(inputs, WARM_UP_RUNS);
        ms.push((aroundMs[sample] ?? 0) + (await session.meanMs(inputs, 1)));
      }
      return { id: tier.id, place: tier.place, exit: tier.exit, answers, ms, msPerInput: ms.reduce((sum, one) => sum + one, 0) / ms.length };
    } finally {
      await session.close();
    }
  }
}

function answerOf({ id, answers }: TierAnswers, sample: number): Answer {
  const answer = answers[sample];
  if (answer === undefined) throw new RangeError(`tier ${id} has no answer to sample ${sample}`);
  return answer;
}

/** At most `count` of the numbers below `length`, evenly spread. */
function spread(length: number, count: number): number[] {
  const step = Math.max(1, length / count);
  return Array.from({ length: Math.min(length, count) }, (_, index) => Math.floor(index * step));
}
