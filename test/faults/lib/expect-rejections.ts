// Sends requests that must be rejected, and then requests that must be answered.
import { sendRequest, type HttpRequest, hasErrorBody, formatReply } from "./http-client.ts";
import { createProblemCollector, type ScenarioResult } from "./scenario.ts";

export interface RejectionCase extends HttpRequest {
  readonly description: string;
  /** 400 alone where left out. */
  readonly allowedStatuses?: readonly number[];
  /** The HTTP server itself may reject it, in its own form. */
  readonly isServerRejection?: boolean;
}

/** @param wrongAnswer tells what is wrong with the answer to a right request, asked once in a while and at the end */
export async function expectRejections(
  origin: string,
  cases: readonly RejectionCase[],
  wrongAnswer: () => Promise<string | undefined>,
  withinMs = 5_000,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  let slowestMs = 0;
  for (const {
    description: what,
    allowedStatuses: statuses = [400],
    isServerRejection: byServer = false,
    ...question
  } of cases) {
    const reply = await sendRequest(origin, question);
    slowestMs = Math.max(slowestMs, reply.durationMs);
    const isRefused =
      statuses.includes(reply.status) &&
      (byServer || hasErrorBody(reply)) &&
      reply.text.length < 2_500;
    findings.check(
      isRefused && reply.durationMs < withinMs,
      () => `${what} got ${formatReply(reply)}`,
    );
    const wrong = await wrongAnswer();
    findings.check(wrong === undefined, () => `after ${what}, ${wrong}`);
  }
  return {
    figures: { cases: cases.length, slowestMs: Math.round(slowestMs) },
    problems: findings.problems,
  };
}

export function mergeResults(reached: readonly ScenarioResult[]): ScenarioResult {
  const sum = (name: string, of: (values: readonly number[]) => number) =>
    of(reached.flatMap(({ figures }) => figures[name] ?? []));
  const figures = {
    cases: sum("cases", (values) => values.reduce((a, b) => a + b, 0)),
    slowestMs: sum("slowestMs", (values) => Math.max(...values)),
  };
  return { figures, problems: reached.flatMap(({ problems }) => problems) };
}
