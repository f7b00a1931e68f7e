// Deployment: deploys the models on this machine to an edge, step by step. Clients' alias moves last, after the smoke test.
// A step that is already done is reported as such, so that another run continues an interrupted deployment.

import { join } from "node:path";
import type { ModelStore } from "../../registry/model-store.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { cliErrors } from "../errors.ts";
import type { DeployOptions } from "./deploy-options.ts";
import {
  buildDeployment,
  checkDeployment,
  computeTag,
  describeUpload,
  moveAlias,
  publishModels,
  recordDeployedEngine,
  resolveAddress,
  runDoctor,
  throwProblems,
  uploadWorker,
} from "./deploy-steps.ts";
import { createEdgeClient, type EdgeClient } from "./edge-client.ts";
import { readSmokeTestCases, type SmokeTestCase } from "./smoke-test-cases.ts";
import { smokeTest, type SmokeTestModel, warmUpModels } from "./smoke-test.ts";
import type { StepRunner } from "./step-runner.ts";
import type { Wrangler } from "./wrangler.ts";

export interface DeployResult {
  readonly url: string | undefined;
  /** Version id of the Worker. Undefined after a dry run. */
  readonly versionId: string | undefined;
  readonly models: readonly { readonly model: string; readonly version: number }[];
}

interface DeployDependencies {
  readonly steps: StepRunner;
  readonly wrangler: Wrangler;
  readonly store: ModelStore;
}

/** @throws deployment_undone if changes were rolled back; otherwise the error of the failed step */
export async function deploy(
  options: DeployOptions,
  dependencies: DeployDependencies,
): Promise<DeployResult> {
  const { steps, wrangler, store } = dependencies;
  const published = options.sources.filter(({ project }) => options.models.includes(project.model));
  const check = await steps.runStep("check", () => checkDeployment(options, wrangler, store));
  if (options.runsDoctor) await steps.runStep("doctor", () => runDoctor(options));
  const built = await steps.runStep("build", () => buildDeployment(options));
  const cases = await readCases(published, options.modelsFolder);
  const models = await steps.runStep("publish", () => publishModels(options, published, store));
  if (options.isDryRun) {
    await previewSteps(steps, [
      [
        "deploy",
        check.current?.tag === computeTag(built.upload)
          ? "this Worker is already deployed"
          : `upload ${describeUpload(built.upload)} as the Worker ${options.worker.name}${check.current === undefined ? ", which is new" : `, replacing version ${check.current.id}`}`,
      ],
      ["warm", "first requests to every model"],
      ["smoke test", describeSmokeTest(cases)],
      ["promote", `${options.alias} of ${options.models.join(", ")}, after the test has passed`],
    ]);
    throwProblems(check.problems);
    return { url: options.url, versionId: undefined, models: [] };
  }
  const { versionId, addresses } = await steps.runStep("deploy", (changes) =>
    uploadWorker(options, { wrangler, upload: built.upload, current: check.current, changes }),
  );
  await steps.runStep("engine", (changes) =>
    recordDeployedEngine(built.deployment, store, changes),
  );
  const url = options.url ?? (await resolveAddress(addresses[0], options));
  const edge = await steps.runStep("address", async () => connect(url, versionId, options));
  const targets = models.map((target) => ({ ...target, cases: cases.get(target.model) ?? [] }));
  await activate(options, dependencies, edge, targets);
  return { url, versionId, models };
}

type CasesByModel = ReadonlyMap<string, readonly SmokeTestCase[]>;

async function readCases(
  sources: readonly PublishSource[],
  modelsFolder: string,
): Promise<CasesByModel> {
  return new Map(
    await Promise.all(
      sources.map(async ({ project }) => {
        const cases = await readSmokeTestCases(project, join(modelsFolder, project.model));
        return [project.model, cases] as const;
      }),
    ),
  );
}

/** Reports the steps that a dry run skips. */
async function previewSteps(
  steps: StepRunner,
  previews: readonly (readonly [step: string, details: string | readonly string[]])[],
): Promise<void> {
  for (const [step, details] of previews)
    await steps.runStep(step, async () => ({ status: "would", details, value: undefined }));
}

/** @throws not_deployable if the address is unknown */
function connect(
  url: string | undefined,
  version: string,
  { worker, apiKey }: DeployOptions,
): { readonly status: "done"; readonly details: string; readonly value: EdgeClient } {
  if (url === undefined)
    throw cliErrors.notDeployable(
      "wrangler prints no address for the Worker",
      "Pass the address with --url, for example the route's: https://api.example.com.",
    );
  return {
    status: "done",
    details: url,
    value: createEdgeClient(url, worker.name, { apiKey, version }),
  };
}

/** Warms up and tests the new versions, then moves the clients' alias to them. */
async function activate(
  options: DeployOptions,
  { steps, store }: DeployDependencies,
  edge: EdgeClient,
  targets: readonly SmokeTestModel[],
): Promise<void> {
  await steps.runStep("warm", async () => ({
    status: "done",
    details: await warmUpModels(edge, targets, options.propagationTimeoutMs),
    value: undefined,
  }));
  await steps.runStep("smoke test", async () => ({
    status: "done",
    details: await smokeTest(edge, targets),
    value: undefined,
  }));
  for (const target of targets)
    await steps.runStep(`promote ${target.model}`, (changes) =>
      moveAlias(options, { edge, store, target, changes }),
    );
}

const describeSmokeTest = (cases: CasesByModel): string[] => [
  "health",
  ...[...cases].map(
    ([model, ofModel]) =>
      `${model}: ${ofModel.map(({ name }) => name).join(", ") || "no samples"}; a cache hit`,
  ),
  "an error with its remedy",
];
