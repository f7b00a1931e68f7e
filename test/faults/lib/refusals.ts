// Asks what must be refused, and then what must be answered.
import { ask, type Question, saysWhy, shown } from "./ask.ts";
import { createFindings, type Reached } from "./scenario.ts";

export interface Refused extends Question {
  readonly what: string;
  /** 400 alone where left out. */
  readonly statuses?: readonly number[];
  /** The HTTP server itself may refuse it, in its own form. */
  readonly byServer?: boolean;
}

/** @param wrongAnswer tells what is wrong with the answer to a right request, asked once in a while and at the end */
export async function expectRefusals(
  origin: string,
  cases: readonly Refused[],
  wrongAnswer: () => Promise<string | undefined>,
  withinMs = 5_000,
): Promise<Reached> {
  const findings = createFindings();
  let slowestMs = 0;
  for (const { what, statuses = [400], byServer = false, ...question } of cases) {
    const reply = await ask(origin, question);
    slowestMs = Math.max(slowestMs, reply.ms);
    const isRefused =
      statuses.includes(reply.status) && (byServer || saysWhy(reply)) && reply.text.length < 2_500;
    findings.expect(isRefused && reply.ms < withinMs, () => `${what} got ${shown(reply)}`);
    const wrong = await wrongAnswer();
    findings.expect(wrong === undefined, () => `after ${what}, ${wrong}`);
  }
  return {
    figures: { cases: cases.length, slowestMs: Math.round(slowestMs) },
    problems: findings.problems,
  };
}

export function join(reached: readonly Reached[]): Reached {
  const sum = (name: string, of: (values: readonly number[]) => number) =>
    of(reached.flatMap(({ figures }) => figures[name] ?? []));
  const figures = {
    cases: sum("cases", (values) => values.reduce((a, b) => a + b, 0)),
    slowestMs: sum("slowestMs", (values) => Math.max(...values)),
  };
  return { figures, problems: reached.flatMap(({ problems }) => problems) };
}
