// Whether a deployment answers as it should, by requests such as a client's.

import { cliErrors } from "../errors.ts";
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { EdgeTierError } from "../../core/errors.ts";
import { modelDetailSchema } from "../../protocol/model-detail.ts";
import type { EdgeClient } from "./edge-client.ts";
import type { SmokeTestCase } from "./smoke-test-cases.ts";

/** Each may come to another isolate, which has to keep the answer first. */
const MAX_CACHE_ATTEMPTS = 6;
const CACHE_HIT_VALUES = new Set(["l1", "l2", "cdn"]);

export interface SmokeTestModel {
  readonly model: string;
  readonly version: number;
  readonly cases: readonly SmokeTestCase[];
}

const problem = z.object({ code: z.string(), detail: z.string(), remedy: z.string().min(1) });

/** First requests to every model, until they are answered: isolates load what they serve. @throws what the last one failed with */
export async function warmUpModels(
  edge: EdgeClient,
  models: readonly SmokeTestModel[],
  withinMs: number,
): Promise<string> {
  const startedAtMs = performance.now();
  await retryUntil(withinMs, async () => await expectStatus(edge, "/v2/health/ready", 200));
  for (const { model, version, cases: trials } of models) {
    await retryUntil(withinMs, async () => {
      await expectStatus(edge, `/v1/models/${model}@${version}`, 200);
      await trials[0]?.run(edge, version).catch(ignoreWrongAnswer);
    });
  }
  return `${models.length === 0 ? "no model" : models.map(({ model, version }) => `${model}@${version}`).join(", ")} after ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`;
}

/** A wrong answer is an answer: waiting will not mend it, and the smoke test tells. */
function ignoreWrongAnswer(error: unknown): void {
  if (!(error instanceof EdgeTierError) || error.code !== "smoke_test_failed") throw error;
}

/** @returns what was found, a line for each check @throws smoke_test_failed, edge_refused, edge_unreachable */
export async function smokeTest(
  edge: EdgeClient,
  models: readonly SmokeTestModel[],
): Promise<string[]> {
  await expectStatus(edge, "/v2/health/live", 200);
  await expectStatus(edge, "/v2/health/ready", 200);
  const found = ["health: live and ready"];
  for (const { model, version, cases: trials } of models) {
    const answers = [];
    for (const trial of trials) answers.push(await trial.run(edge, version));
    const degraded = answers.filter((answer) => answer.degraded).length;
    found.push(
      `${model}@${version}: ${trials.length === 0 ? "no samples to ask it" : `${answers.length} of ${answers.length} answers as expected`}${degraded === 0 ? "" : `, ${degraded} of them degraded`}`,
    );
    if (answers[0]?.cache !== undefined)
      found.push(`${model}@${version}: ${await checkCacheHit(edge, model, version, trials)}`);
  }
  found.push(`errors: ${await checkErrorResponse(edge)}`);
  return found;
}

/** @throws smoke_test_failed if the alias does not come to name the version */
export async function waitForAlias(
  edge: EdgeClient,
  { model, version }: Pick<SmokeTestModel, "model" | "version">,
  alias: string,
  withinMs: number,
): Promise<void> {
  await retryUntil(withinMs, async () => {
    const { status, body } = await edge.get(`/v1/models/${model}@${alias}`);
    const served = modelDetailSchema.safeParse(body).data?.version;
    if (served !== version)
      throw cliErrors.smokeTestFailed(
        `${model}@${alias}`,
        served === undefined ? `status ${status}` : `the edge still serves version ${served}`,
      );
  });
}

async function checkCacheHit(
  edge: EdgeClient,
  model: string,
  version: number,
  [trial]: readonly SmokeTestCase[],
): Promise<string> {
  let seen = "";
  for (let tries = 1; tries <= MAX_CACHE_ATTEMPTS; tries++) {
    seen = (await trial?.run(edge, version))?.cache ?? "none";
    if (CACHE_HIT_VALUES.has(seen)) return `asked again, answered from ${seen}`;
  }
  throw cliErrors.smokeTestFailed(
    `${model}@${version}, caches`,
    `the same request is not answered from one, but as ${seen}`,
  );
}

/** What is wrong must be said, with what to do about it. */
async function checkErrorResponse(edge: EdgeClient): Promise<string> {
  const { status, body } = await edge.postUnchecked("/v1/models/no.such.model/predict", {
    inputs: "hello",
  });
  const said = problem.safeParse(body).data;
  if (status < 400 || status >= 500 || said === undefined)
    throw cliErrors.smokeTestFailed(
      "errors",
      `an unknown model is answered with ${status}, and ${said === undefined ? "no remedy" : said.code}`,
    );
  return `an unknown model is ${said.code} (${status}), with a remedy`;
}

async function expectStatus(edge: EdgeClient, path: string, status: number): Promise<void> {
  const { status: got, body } = await edge.get(path);
  if (got !== status)
    throw cliErrors.smokeTestFailed(
      path,
      `status ${got}${problem.safeParse(body).success ? `, ${problem.parse(body).detail}` : ""}`,
    );
}

/** Again while it fails in a way that time may mend. */
async function retryUntil(withinMs: number, check: () => Promise<unknown>): Promise<void> {
  const giveUpAtMs = performance.now() + withinMs;
  for (let waitMs = 250; ; waitMs = Math.min(2 * waitMs, 5_000)) {
    try {
      await check();
      return;
    } catch (error) {
      if (!(error instanceof EdgeTierError) || performance.now() + waitMs > giveUpAtMs) throw error;
      await sleep(waitMs);
    }
  }
}
