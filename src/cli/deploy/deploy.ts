// A deployment from the models on this machine to answers from the edge. New versions get the alias that clients ask last,
// when the new Worker has been tried with them; a step that has been done already is found done, so that a deployment that
// broke off goes on when it is run again.

import { cliErrors } from "../errors.ts";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import { readDeploymentConfig } from "../../toolchain/deployment-config.ts";
import { sha256HexSync } from "../../toolchain/sha256-sync.ts";
import { diagnose, limitErrors } from "../../toolchain/doctor.ts";
import type { BuiltDeployment } from "../../toolchain/engine/build-deployment.ts";
import { type EdgeTierError } from "../../core/errors.ts";
import { EDGE_SECRETS, missingVariables, unknownVariables } from "../../http/edge-variables.ts";
import { promoteAlias, rollbackAlias } from "../../registry/aliases.ts";
import { aliasedVersion } from "../../registry/manifest.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import { publishModel, type PublishSource } from "../../registry/publish.ts";
import {
  buildProjectDeployment,
  deployedEngineOf,
  createProjectSnapshots,
} from "../build-deployment.ts";
import { measureDeployment } from "../doctor/measure-deployment.ts";
import { bundleWorker, type WorkerUpload } from "../local/upload.ts";
import { collectProvenance } from "../provenance.ts";
import { createEdgeClient, type EdgeClient } from "./edge-client.ts";
import { waitForAlias, smokeTest, type SmokeTestModel, warmUpModels } from "./smoke-test.ts";
import type { StepRunner, Compensation } from "./step-runner.ts";
import { readSmokeTestCases } from "./smoke-test-cases.ts";
import type { DeployedVersion, Wrangler } from "./wrangler.ts";

/** Names what was published last by a deployment; clients ask for another. */
const STAGING_ALIAS = "next";
const TAG_LENGTH = 12;
/** Of a Worker, by its name. */
const addressFileSchema = z.record(z.string(), z.url());

export interface DeployOptions {
  /** All projects: the engine is cut to them. */
  readonly sources: readonly PublishSource[];
  /** Names of those that are published. */
  readonly models: readonly string[];
  readonly modelsFolder: string;
  /** Of the package.json. */
  readonly configFolder: string;
  /** Of the upload while it is examined. */
  readonly scratchFolder: string;
  /** As wrangler.toml has it. */
  readonly worker: { readonly name: string; readonly variables: Readonly<Record<string, unknown>> };
  /** That clients ask, to move at last. */
  readonly alias: string;
  /** Undefined: what `wrangler deploy` tells, or told the last time. */
  readonly url: string | undefined;
  readonly addressFile: string;
  readonly apiKey: string | undefined;
  /** Secrets to set; none leaves those of the Worker as they are. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly isDryRun: boolean;
  readonly runsDoctor: boolean;
  /** For what is new to be everywhere. */
  readonly propagationTimeoutMs: number;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface DeployResult {
  readonly url: string | undefined;
  /** Of the Worker; undefined after a dry run. */
  readonly versionId: string | undefined;
  readonly models: readonly { readonly model: string; readonly version: number }[];
}

/** @throws deployment_undone if something was changed and taken back; else what a step failed with */
export async function deploy(
  options: DeployOptions,
  {
    steps,
    wrangler,
    store,
  }: { readonly steps: StepRunner; readonly wrangler: Wrangler; readonly store: ModelStore },
): Promise<DeployResult> {
  const { alias, isDryRun: dryRun, worker } = options;
  const published = options.sources.filter(({ project }) => options.models.includes(project.model));
  const { current: before, problems } = await steps.runStep("check", () =>
    check(options, wrangler, store),
  );
  if (options.runsDoctor) await steps.runStep("doctor", () => runDoctor(options));
  const { deployment, upload } = await steps.runStep("build", () => build(options));
  const trials = new Map(
    await Promise.all(
      published.map(
        async ({ project }) =>
          [
            project.model,
            await readSmokeTestCases(project, join(options.modelsFolder, project.model)),
          ] as const,
      ),
    ),
  );
  const models = await steps.runStep("publish", () => publish(options, published, store));
  if (dryRun) {
    await steps.runStep("deploy", async () => ({
      status: "would",
      details:
        before?.tag === computeTag(upload)
          ? "this Worker is deployed already"
          : `upload ${formatMebibytes(upload)} MiB as the Worker ${worker.name}${before === undefined ? ", a new one" : `, in place of version ${before.id}`}`,
      value: undefined,
    }));
    for (const [step, found] of [
      ["warm", "first requests to every model"],
      ["smoke test", describeSmokeTest(trials)],
      ["promote", `${alias} of ${options.models.join(", ")}, when the test has passed`],
    ] as const) {
      await steps.runStep(step, async () => ({
        status: "would",
        details: found,
        value: undefined,
      }));
    }
    throwProblems(problems);
    return { url: options.url, versionId: undefined, models: [] };
  }
  const { versionId, addresses } = await steps.runStep("deploy", (changes) =>
    uploadWorker(options, wrangler, upload, before, changes),
  );
  await steps.runStep("engine", (changes) => recordDeployedEngine(deployment, store, changes));
  const url = options.url ?? (await resolveAddress(addresses[0], options));
  const edge = await steps.runStep("address", async () => {
    if (url === undefined)
      throw cliErrors.notDeployable(
        "The Worker has no address that wrangler tells",
        "Give it with --url, such as the route's: https://api.example.com.",
      );
    return {
      status: "done" as const,
      details: url,
      value: createEdgeClient(url, worker.name, { apiKey: options.apiKey, version: versionId }),
    };
  });
  const tried: SmokeTestModel[] = models.map(({ model, version }) => ({
    model,
    version,
    cases: trials.get(model) ?? [],
  }));
  await steps.runStep("warm", async () => ({
    status: "done",
    details: await warmUpModels(edge, tried, options.propagationTimeoutMs),
    value: undefined,
  }));
  await steps.runStep("smoke test", async () => ({
    status: "done",
    details: await smokeTest(edge, tried),
    value: undefined,
  }));
  for (const one of tried)
    await steps.runStep(`promote ${one.model}`, (changes) =>
      moveAlias(edge, store, one, options, changes),
    );
  return { url, versionId, models };
}

/** What would fail later is found before anything is changed. */
async function check(
  { worker, secrets, isDryRun: dryRun }: DeployOptions,
  wrangler: Wrangler,
  store: ModelStore,
) {
  const given = Object.keys(secrets);
  const details: string[] = [];
  await store.listModels();
  details.push("the model store answers");
  const set = await wrangler.listSecrets();
  const have = new Set([...Object.keys(worker.variables), ...(set ?? []), ...given]);
  const missing = missingVariables(have);
  const inClear = Object.keys(worker.variables).filter(
    (name) => name !== "EDGETIER_S3_ENDPOINT" && EDGE_SECRETS.some((secret) => secret === name),
  );
  const problems = [
    ...(missing.length === 0 ? [] : [cliErrors.secretsMissing(worker.name, missing)]),
    ...(inClear.length === 0
      ? []
      : [
          cliErrors.notDeployable(
            `wrangler.toml has ${inClear.join(", ")} in clear`,
            "Take them out, and set them with `npx wrangler secret put`.",
          ),
        ]),
  ];
  if (!dryRun) throwProblems(problems);
  details.push(...problems.map(({ detail, remedy }) => `NOT READY: ${detail} ${remedy}`));
  const unknown = unknownVariables([...have]);
  if (unknown.length > 0) details.push(`no edge reads ${unknown.join(", ")}: misspelt?`);
  if (given.length > 0 && !dryRun) await wrangler.setSecrets(secrets);
  details.push(
    `secrets: ${[...(set ?? []), ...given].length === 0 ? "none" : [...new Set([...(set ?? []), ...given])].toSorted().join(", ")}${given.length === 0 ? "" : ` (${dryRun ? "would be set" : "set now"}: ${given.join(", ")})`}`,
  );
  const current = set === undefined ? undefined : await wrangler.findActiveVersion();
  details.push(
    current === undefined
      ? `the Worker ${worker.name} answers nobody yet`
      : `version ${current.id} of the Worker ${worker.name} answers`,
  );
  return { status: "done" as const, details, value: { current, problems } };
}

function throwProblems(problems: readonly EdgeTierError[]): void {
  if (problems.length > 0) throw problems.length === 1 ? problems[0] : new AggregateError(problems);
}

async function runDoctor({ configFolder: folder, log, signal }: DeployOptions) {
  const config = await readDeploymentConfig(folder);
  const { measured, report } = await measureDeployment({ log, signal });
  const diagnosis = diagnose(measured, { config, limits: config.limits, engine: report.engine });
  if (!diagnosis.ok) throw new AggregateError(limitErrors(diagnosis));
  return {
    status: "done" as const,
    details: `${diagnosis.checks.filter(({ limit }) => limit !== null).length} measures within their limits`,
    value: undefined,
  };
}

async function build({ sources, scratchFolder, log, signal }: DeployOptions) {
  const deployment = await buildProjectDeployment(sources, { log });
  const upload = await bundleWorker(join(scratchFolder, "worker.bundle"), { signal });
  return {
    status: deployment.cached ? ("already" as const) : ("done" as const),
    details: `${formatMebibytes(upload)} MiB to upload, ${computeTag(upload)}`,
    value: { deployment, upload },
  };
}

async function publish(
  { modelsFolder, isDryRun: dryRun, log }: DeployOptions,
  sources: readonly PublishSource[],
  store: ModelStore,
) {
  const models: { model: string; version: number }[] = [];
  const details: string[] = [];
  for (const source of sources) {
    const { model } = source.project;
    if (dryRun) {
      details.push(
        `${model}: as version ${((await store.listVersions(model)).at(-1) ?? 0) + 1}, unless its content is there`,
      );
      continue;
    }
    const publishing = await collectProvenance(
      join(modelsFolder, model),
      `edgetier deploy ${model}`,
    ).catch(() => undefined);
    const { version, outcome } = await publishModel(
      store,
      (await createProjectSnapshots(source, log)).source,
      { alias: STAGING_ALIAS, ...(publishing === undefined ? {} : { publishing }) },
    );
    models.push({ model, version });
    details.push(`${model}@${version}${outcome === "unchanged" ? ", in the store already" : ""}`);
  }
  const status = dryRun
    ? ("would" as const)
    : details.every((line) => line.endsWith("already"))
      ? ("already" as const)
      : ("done" as const);
  return { status, details, value: models };
}

async function uploadWorker(
  { worker }: DeployOptions,
  wrangler: Wrangler,
  upload: WorkerUpload,
  before: DeployedVersion | undefined,
  changes: (undo: Compensation) => void,
) {
  const tag = computeTag(upload);
  if (before?.tag === tag)
    return {
      status: "already" as const,
      details: `version ${before.id}`,
      value: { versionId: before.id, addresses: [] },
    };
  changes({
    description:
      before === undefined
        ? `the new Worker ${worker.name}`
        : `the Worker, to version ${before.id}`,
    manualRemedy:
      before === undefined
        ? `\`npx wrangler delete --name ${worker.name}\``
        : `\`npx wrangler rollback ${before.id}\``,
    async undo() {
      const now = await wrangler.findActiveVersion();
      if (now === undefined || now.id === before?.id) return false;
      if (before === undefined)
        throw cliErrors.notDeployable(
          "it is the first one, and there is no version before it",
          "Delete it.",
        );
      await wrangler.rollback(before.id, `the deployment of ${tag} failed`);
      return true;
    },
  });
  const deployed = await wrangler.deploy({ tag, message: `edgetier deploy ${tag}` });
  return {
    status: "done" as const,
    details: [`version ${deployed.versionId}`, ...deployed.addresses],
    value: deployed,
  };
}

/** wrangler tells it only when it deploys: it is kept for the next time. */
async function resolveAddress(
  told: string | undefined,
  { addressFile, worker: { name } }: DeployOptions,
): Promise<string | undefined> {
  if (told === undefined)
    return await readFile(addressFile, "utf8").then(
      (text) => addressFileSchema.safeParse(JSON.parse(text)).data?.[name],
      () => undefined,
    );
  await mkdir(dirname(addressFile), { recursive: true });
  await writeFile(addressFile, JSON.stringify({ [name]: told }));
  return told;
}

/** So that publishing knows what the edge can serve. */
async function recordDeployedEngine(
  deployment: BuiltDeployment,
  store: ModelStore,
  changes: (undo: Compensation) => void,
) {
  const before = await store.readDeployedEngine();
  const engine = deployedEngineOf(deployment);
  if (JSON.stringify(before) === JSON.stringify(engine))
    return {
      status: "already" as const,
      details: "the store knows which is deployed",
      value: undefined,
    };
  if (before !== undefined) {
    changes({
      description: "the store's note of the engine",
      manualRemedy: "`edgetier engine publish`, with the models that were deployed before",
      async undo() {
        await store.writeDeployedEngine(before);
        return true;
      },
    });
  }
  await store.writeDeployedEngine(engine);
  return {
    status: "done" as const,
    details: `noted in the store: the ${engine.kind} one of ${engine.source.slice(0, TAG_LENGTH)}`,
    value: undefined,
  };
}

async function moveAlias(
  edge: EdgeClient,
  store: ModelStore,
  { model, version }: SmokeTestModel,
  { alias, propagationTimeoutMs: patienceMs }: DeployOptions,
  changes: (undo: Compensation) => void,
) {
  const named = async () => {
    const target = (await store.readAliases(model))?.aliases[alias];
    return target === undefined ? undefined : aliasedVersion(target);
  };
  const before = await named();
  if (before === version)
    return {
      status: "already" as const,
      details: `${alias} is version ${version}`,
      value: undefined,
    };
  if (before !== undefined) {
    changes({
      description: `${model}@${alias}, to version ${before}`,
      manualRemedy: `\`edgetier model rollback ${model} --alias ${alias}\``,
      async undo() {
        if ((await named()) !== version) return false;
        await rollbackAlias(store, model, alias);
        return true;
      },
    });
  }
  await promoteAlias(store, model, { kind: "version", version }, { alias });
  await waitForAlias(edge, { model, version }, alias, patienceMs);
  return {
    status: "done" as const,
    details: `${alias} is version ${version}, and was ${before ?? "nothing"}`,
    value: undefined,
  };
}

/** Of everything that is uploaded. */
function computeTag({
  modules,
  variables,
  compatibilityDate,
  compatibilityFlags,
}: WorkerUpload): string {
  return sha256HexSync(
    JSON.stringify([
      variables,
      compatibilityDate,
      compatibilityFlags,
      modules.map(({ name, kind, bytes }) => [name, kind, sha256HexSync(bytes)]),
    ]),
  ).slice(0, TAG_LENGTH);
}

const formatMebibytes = ({ modules }: WorkerUpload): string =>
  (modules.reduce((sum, { bytes }) => sum + bytes.byteLength, 0) / 1024 / 1024).toFixed(1);

const describeSmokeTest = (
  trials: ReadonlyMap<string, readonly { readonly name: string }[]>,
): string[] => [
  "health",
  ...[...trials].map(
    ([model, all]) =>
      `${model}: ${all.map(({ name }) => name).join(", ") || "no samples"}; a cache hit`,
  ),
  "an error with its remedy",
];
