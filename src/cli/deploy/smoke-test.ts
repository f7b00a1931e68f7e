// Smoke test: checks a deployment with requests like those of a client.

import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { EdgeTierError } from "../../core/errors.ts";
import { modelDetailSchema } from "../../protocol/model-detail.ts";
import { cliErrors } from "../errors.ts";
import type { EdgeClient } from "./edge-client.ts";
import type { SmokeTestCase } from "./smoke-test-cases.ts";

/** Every request may reach another isolate, which must cache the answer first. */
const MAX_CACHE_ATTEMPTS = 6;
const CACHE_HIT_VALUES = new Set(["l1", "l2", "cdn"]);

export interface SmokeTestModel {
  readonly model: string;
  readonly version: number;
  readonly cases: readonly SmokeTestCase[];
}

const problemSchema = z.object({ code: z.string(), detail: z.string(), remedy: z.string().min(1) });

/** Sends first requests to every model until they are answered, so that isolates load the models. @throws the last failure */
export async function warmUpModels(
  edge: EdgeClient,
  models: readonly SmokeTestModel[],
  withinMs: number,
): Promise<string> {
  const startedAtMs = performance.now();
  await retryUntil(withinMs, async () => await expectStatus(edge, "/v2/health/ready", 200));
  for (const { model, version, cases } of models) {
    await retryUntil(withinMs, async () => {
      await expectStatus(edge, `/v1/models/${model}@${version}`, 200);
      await cases[0]?.run(edge, version).catch(ignoreWrongAnswer);
    });
  }
  return `${models.length === 0 ? "no model" : models.map(({ model, version }) => `${model}@${version}`).join(", ")} after ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`;
}

/** A retry does not correct a wrong answer, so the smoke test reports it instead. */
function ignoreWrongAnswer(error: unknown): void {
  if (!(error instanceof EdgeTierError) || error.code !== "smoke_test_failed") throw error;
}

/** Runs the checks and returns a line for each. @throws smoke_test_failed, edge_unreachable, or the edge's error */
export async function smokeTest(
  edge: EdgeClient,
  models: readonly SmokeTestModel[],
): Promise<string[]> {
  await expectStatus(edge, "/v2/health/live", 200);
  await expectStatus(edge, "/v2/health/ready", 200);
  const results = ["health: live and ready"];
  for (const { model, version, cases } of models) {
    const answers = [];
    for (const testCase of cases) answers.push(await testCase.run(edge, version));
    const degraded = answers.filter((answer) => answer.degraded).length;
    results.push(
      `${model}@${version}: ${cases.length === 0 ? "no samples to test" : `${answers.length} of ${answers.length} answers as expected`}${degraded === 0 ? "" : `, ${degraded} of them degraded`}`,
    );
    if (answers[0]?.cache !== undefined)
      results.push(`${model}@${version}: ${await checkCacheHit(edge, model, version, cases)}`);
  }
  results.push(`errors: ${await checkErrorResponse(edge)}`);
  return results;
}

/** Waits until the edge serves the version under the alias. @throws smoke_test_failed after `withinMs` */
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
  [firstCase]: readonly SmokeTestCase[],
): Promise<string> {
  let cache = "";
  for (let tries = 1; tries <= MAX_CACHE_ATTEMPTS; tries++) {
    cache = (await firstCase?.run(edge, version))?.cache ?? "none";
    if (CACHE_HIT_VALUES.has(cache)) return `a repeated request was answered from ${cache}`;
  }
  throw cliErrors.smokeTestFailed(
    `${model}@${version}, caches`,
    `a repeated request was not answered from a cache (${cache})`,
  );
}

/** Checks that an error has a code, a detail and a remedy. */
async function checkErrorResponse(edge: EdgeClient): Promise<string> {
  const { status, body } = await edge.postUnchecked("/v1/models/no.such.model/predict", {
    inputs: "hello",
  });
  const problem = problemSchema.safeParse(body).data;
  if (status < 400 || status >= 500 || problem === undefined)
    throw cliErrors.smokeTestFailed(
      "errors",
      `the response to an unknown model has status ${status} and ${problem === undefined ? "no remedy" : `code ${problem.code}`}`,
    );
  return `an unknown model returns ${problem.code} (${status}), with a remedy`;
}

async function expectStatus(edge: EdgeClient, path: string, status: number): Promise<void> {
  const { status: actual, body } = await edge.get(path);
  if (actual !== status)
    throw cliErrors.smokeTestFailed(
      path,
      `status ${actual}${problemSchema.safeParse(body).success ? `, ${problemSchema.parse(body).detail}` : ""}`,
    );
}

/** Retries `check` with a growing delay. Only errors of the edge are retried. @throws the last error */
async function retryUntil(withinMs: number, check: () => Promise<unknown>): Promise<void> {
  const deadlineMs = performance.now() + withinMs;
  for (let waitMs = 250; ; waitMs = Math.min(2 * waitMs, 5_000)) {
    try {
      await check();
      return;
    } catch (error) {
      if (!(error instanceof EdgeTierError) || performance.now() + waitMs > deadlineMs) throw error;
      await sleep(waitMs);
    }
  }
}
