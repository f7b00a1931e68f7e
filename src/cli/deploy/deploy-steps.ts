// Deployment steps: what each step of `edgetier deploy` does, and how its change is rolled back.
// Above 300 lines because the steps share the deployment's options and results.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import { type EdgeTierError } from "../../core/errors.ts";
import { EDGE_SECRETS, missingVariables, unknownVariables } from "../../http/edge-variables.ts";
import { promoteAlias, rollbackAlias } from "../../registry/aliases.ts";
import { aliasedVersion } from "../../registry/manifest.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import { publishModel, type PublishSource } from "../../registry/publish.ts";
import { readDeploymentConfig } from "../../toolchain/deployment-config.ts";
import { diagnose, limitErrors } from "../../toolchain/doctor.ts";
import type { BuiltDeployment } from "../../toolchain/engine/build-deployment.ts";
import { sha256HexSync } from "../../toolchain/sha256-sync.ts";
import {
  buildProjectDeployment,
  deployedEngineOf,
  createProjectSnapshots,
} from "../build-deployment.ts";
import { measureDeployment } from "../doctor/measure-deployment.ts";
import { cliErrors } from "../errors.ts";
import { bundleWorker, type WorkerUpload } from "../local/upload.ts";
import { collectProvenance } from "../provenance.ts";
import type { DeployOptions } from "./deploy-options.ts";
import type { EdgeClient } from "./edge-client.ts";
import { type SmokeTestModel, waitForAlias } from "./smoke-test.ts";
import type { Compensation } from "./step-runner.ts";
import type { DeployedVersion, Wrangler } from "./wrangler.ts";

/** Alias of the last published versions, which no client calls. */
const STAGING_ALIAS = "next";
const UNCHANGED = "already in the store";
const TAG_LENGTH = 12;
/** Addresses by the Worker's name. */
const addressFileSchema = z.record(z.string(), z.url());

/** Finds problems before any step changes something. @throws secrets_missing, not_deployable */
export async function checkDeployment(
  { worker, secrets, isDryRun }: DeployOptions,
  wrangler: Wrangler,
  store: ModelStore,
) {
  const newSecrets = Object.keys(secrets);
  const details: string[] = [];
  await store.listModels();
  details.push("the model store responds");
  const currentSecrets = await wrangler.listSecrets();
  const allSecrets = new Set([...(currentSecrets ?? []), ...newSecrets]);
  const variables = new Set([...Object.keys(worker.variables), ...allSecrets]);
  const missing = missingVariables(variables);
  const exposedSecrets = Object.keys(worker.variables).filter(
    (name) => name !== "EDGETIER_S3_ENDPOINT" && EDGE_SECRETS.some((secret) => secret === name),
  );
  const problems = [
    ...(missing.length === 0 ? [] : [cliErrors.secretsMissing(worker.name, missing)]),
    ...(exposedSecrets.length === 0
      ? []
      : [
          cliErrors.notDeployable(
            `wrangler.toml contains the secrets ${exposedSecrets.join(", ")} in plain text`,
            "Remove them, and set them with `npx wrangler secret put`.",
          ),
        ]),
  ];
  if (!isDryRun) throwProblems(problems);
  details.push(...problems.map(({ detail, remedy }) => `NOT READY: ${detail} ${remedy}`));
  const unknown = unknownVariables([...variables]);
  if (unknown.length > 0)
    details.push(`unknown variables, maybe misspelled: ${unknown.join(", ")}`);
  if (newSecrets.length > 0 && !isDryRun) await wrangler.setSecrets(secrets);
  const secretNames = allSecrets.size === 0 ? "none" : [...allSecrets].toSorted().join(", ");
  const change =
    newSecrets.length === 0
      ? ""
      : ` (${isDryRun ? "would be set" : "set now"}: ${newSecrets.join(", ")})`;
  details.push(`secrets: ${secretNames}${change}`);
  const current = currentSecrets === undefined ? undefined : await wrangler.findActiveVersion();
  details.push(
    current === undefined
      ? `the Worker ${worker.name} is not deployed yet`
      : `version ${current.id} of the Worker ${worker.name} is active`,
  );
  return { status: "done" as const, details, value: { current, problems } };
}

export function throwProblems(problems: readonly EdgeTierError[]): void {
  if (problems.length > 0) throw problems.length === 1 ? problems[0] : new AggregateError(problems);
}

/** Measures the deployment. @throws AggregateError with one error for each exceeded limit */
export async function runDoctor({ configFolder, log, signal }: DeployOptions) {
  const config = await readDeploymentConfig(configFolder);
  const { measured, report } = await measureDeployment({ log, signal });
  const diagnosis = diagnose(measured, { config, limits: config.limits, engine: report.engine });
  if (!diagnosis.ok) throw new AggregateError(limitErrors(diagnosis));
  return {
    status: "done" as const,
    details: `${diagnosis.checks.filter(({ limit }) => limit !== null).length} measurements within their limits`,
    value: undefined,
  };
}

/** Builds the engine, the snapshots and the upload. */
export async function buildDeployment({ sources, scratchFolder, log, signal }: DeployOptions) {
  const deployment = await buildProjectDeployment(sources, { log });
  const upload = await bundleWorker(join(scratchFolder, "worker.bundle"), { signal });
  return {
    status: deployment.cached ? ("already" as const) : ("done" as const),
    details: `${describeUpload(upload)} to upload, ${computeTag(upload)}`,
    value: { deployment, upload },
  };
}

/** Publishes the models under the staging alias, which no client calls. */
export async function publishModels(
  { modelsFolder, isDryRun, log }: DeployOptions,
  sources: readonly PublishSource[],
  store: ModelStore,
) {
  const models: { model: string; version: number }[] = [];
  const details: string[] = [];
  for (const source of sources) {
    const { model } = source.project;
    if (isDryRun) {
      details.push(
        `${model}: as version ${((await store.listVersions(model)).at(-1) ?? 0) + 1}, unless the store has its content`,
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
    details.push(`${model}@${version}${outcome === "unchanged" ? `, ${UNCHANGED}` : ""}`);
  }
  const status = isDryRun
    ? ("would" as const)
    : details.every((line) => line.endsWith(UNCHANGED))
      ? ("already" as const)
      : ("done" as const);
  return { status, details, value: models };
}

interface UploadStep {
  readonly wrangler: Wrangler;
  readonly upload: WorkerUpload;
  /** The active version before the upload. */
  readonly current: DeployedVersion | undefined;
  readonly changes: (undo: Compensation) => void;
}

/** Uploads the Worker unless the active version has the same content. */
export async function uploadWorker(
  { worker }: DeployOptions,
  { wrangler, upload, current, changes }: UploadStep,
) {
  const tag = computeTag(upload);
  if (current?.tag === tag)
    return {
      status: "already" as const,
      details: `version ${current.id}`,
      value: { versionId: current.id, addresses: [] },
    };
  changes({
    description:
      current === undefined
        ? `the new Worker ${worker.name}`
        : `the Worker, to version ${current.id}`,
    manualRemedy:
      current === undefined
        ? `\`npx wrangler delete --name ${worker.name}\``
        : `\`npx wrangler rollback ${current.id}\``,
    async undo() {
      const active = await wrangler.findActiveVersion();
      if (active === undefined || active.id === current?.id) return false;
      if (current === undefined)
        throw cliErrors.notDeployable("The first version has no predecessor", "Delete the Worker.");
      await wrangler.rollback(current.id, `the deployment of ${tag} failed`);
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

/** Returns the Worker's address. wrangler prints it only on a deployment, so a file keeps it for later runs. */
export async function resolveAddress(
  printed: string | undefined,
  { addressFile, worker: { name } }: DeployOptions,
): Promise<string | undefined> {
  if (printed === undefined)
    return await readFile(addressFile, "utf8").then(
      (text) => addressFileSchema.safeParse(JSON.parse(text)).data?.[name],
      () => undefined,
    );
  await mkdir(dirname(addressFile), { recursive: true });
  await writeFile(addressFile, JSON.stringify({ [name]: printed }));
  return printed;
}

/** Records the deployed engine in the store, for the checks of `model publish`. */
export async function recordDeployedEngine(
  deployment: BuiltDeployment,
  store: ModelStore,
  changes: (undo: Compensation) => void,
) {
  const before = await store.readDeployedEngine();
  const engine = deployedEngineOf(deployment);
  if (JSON.stringify(before) === JSON.stringify(engine))
    return {
      status: "already" as const,
      details: "the store already records it",
      value: undefined,
    };
  if (before !== undefined) {
    changes({
      description: "the store's record of the engine",
      manualRemedy: "`edgetier engine publish`, with the previously deployed models",
      async undo() {
        await store.writeDeployedEngine(before);
        return true;
      },
    });
  }
  await store.writeDeployedEngine(engine);
  return {
    status: "done" as const,
    details: `recorded in the store: ${engine.kind}, ${engine.source.slice(0, TAG_LENGTH)}`,
    value: undefined,
  };
}

interface AliasStep {
  readonly edge: EdgeClient;
  readonly store: ModelStore;
  readonly target: SmokeTestModel;
  readonly changes: (undo: Compensation) => void;
}

/** Moves the clients' alias to the new version and waits until the edge serves it. */
export async function moveAlias(
  { alias, propagationTimeoutMs }: DeployOptions,
  { edge, store, target: { model, version }, changes }: AliasStep,
) {
  const readAliasVersion = async () => {
    const target = (await store.readAliases(model))?.aliases[alias];
    return target === undefined ? undefined : aliasedVersion(target);
  };
  const before = await readAliasVersion();
  if (before === version)
    return {
      status: "already" as const,
      details: `${alias} already is version ${version}`,
      value: undefined,
    };
  if (before !== undefined) {
    changes({
      description: `${model}@${alias}, to version ${before}`,
      manualRemedy: `\`edgetier model rollback ${model} --alias ${alias}\``,
      async undo() {
        if ((await readAliasVersion()) !== version) return false;
        await rollbackAlias(store, model, alias);
        return true;
      },
    });
  }
  await promoteAlias(store, model, { kind: "version", version }, { alias });
  await waitForAlias(edge, { model, version }, alias, propagationTimeoutMs);
  return {
    status: "done" as const,
    details: `${alias} is version ${version}, previously ${before ?? "unset"}`,
    value: undefined,
  };
}

/** Computes the tag of an upload: a digest of its modules and settings. */
export function computeTag({
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

export const describeUpload = ({ modules }: WorkerUpload): string =>
  `${(modules.reduce((sum, { bytes }) => sum + bytes.byteLength, 0) / 1024 / 1024).toFixed(1)} MiB`;
