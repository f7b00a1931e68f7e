// A deployment from the models on this machine to answers from the edge. New versions get the alias that clients ask last,
// when the new Worker has been tried with them; a step that has been done already is found done, so that a deployment that
// broke off goes on when it is run again.

import { cliErrors } from "../errors.ts";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import { readDeploymentConfig } from "../../toolchain/deployment-config.ts";
import { digestOf } from "../../toolchain/digest.ts";
import { diagnose, problemsIn } from "../../toolchain/doctor.ts";
import type { BuiltDeployment } from "../../toolchain/engine/build.ts";
import { type EdgeTierError } from "../../core/errors.ts";
import { EDGE_SECRETS, missingVariables, unknownVariables } from "../../http/edge-variables.ts";
import { promote, rollback } from "../../registry/aliases.ts";
import { aliasedVersion } from "../../registry/manifest.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import { publishModel, type PublishSource } from "../../registry/publish.ts";
import { buildProjectDeployment, deployedEngine, makeProjectSnapshots } from "../deployment.ts";
import { measureDeployment } from "../doctor/measure-deployment.ts";
import { bundleWorker, type Upload } from "../local/upload.ts";
import { publishingFacts } from "../provenance.ts";
import { createEdgeClient, type Edge } from "./edge-client.ts";
import { expectAlias, smokeTest, type TriedModel, warm } from "./smoke-test.ts";
import type { Steps, Undo } from "./steps.ts";
import { trialsOf } from "./trials.ts";
import type { DeployedVersion, Wrangler } from "./wrangler.ts";

/** Names what was published last by a deployment; clients ask for another. */
const ALIAS_BEFORE = "next";
const TAG_CHARACTERS = 12;
/** Of a Worker, by its name. */
const deployedAddress = z.record(z.string(), z.url());

export interface DeployOptions {
  /** All projects: the engine is cut to them. */
  readonly sources: readonly PublishSource[];
  /** Names of those that are published. */
  readonly models: readonly string[];
  readonly modelsFolder: string;
  /** Of the package.json. */
  readonly folder: string;
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
  readonly dryRun: boolean;
  readonly doctor: boolean;
  /** For what is new to be everywhere. */
  readonly patienceMs: number;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface Deployed {
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
  }: { readonly steps: Steps; readonly wrangler: Wrangler; readonly store: ModelStore },
): Promise<Deployed> {
  const { alias, dryRun, worker } = options;
  const published = options.sources.filter(({ project }) => options.models.includes(project.model));
  const { current: before, problems } = await steps.run("check", () =>
    check(options, wrangler, store),
  );
  if (options.doctor) await steps.run("doctor", () => examine(options));
  const { deployment, upload } = await steps.run("build", () => build(options));
  const trials = new Map(
    await Promise.all(
      published.map(
        async ({ project }) =>
          [
            project.model,
            await trialsOf(project, join(options.modelsFolder, project.model)),
          ] as const,
      ),
    ),
  );
  const models = await steps.run("publish", () => publish(options, published, store));
  if (dryRun) {
    await steps.run("deploy", async () => ({
      status: "would",
      found:
        before?.tag === tagOf(upload)
          ? "this Worker is deployed already"
          : `upload ${mebibytes(upload)} MiB as the Worker ${worker.name}${before === undefined ? ", a new one" : `, in place of version ${before.id}`}`,
      value: undefined,
    }));
    for (const [step, found] of [
      ["warm", "first requests to every model"],
      ["smoke test", dryTrials(trials)],
      ["promote", `${alias} of ${options.models.join(", ")}, when the test has passed`],
    ] as const) {
      await steps.run(step, async () => ({ status: "would", found, value: undefined }));
    }
    throwAll(problems);
    return { url: options.url, versionId: undefined, models: [] };
  }
  const { versionId, addresses } = await steps.run("deploy", (changes) =>
    uploadWorker(options, wrangler, upload, before, changes),
  );
  await steps.run("engine", (changes) => noteEngine(deployment, store, changes));
  const url = options.url ?? (await addressOf(addresses[0], options));
  const edge = await steps.run("address", async () => {
    if (url === undefined)
      throw cliErrors.notDeployable(
        "The Worker has no address that wrangler tells",
        "Give it with --url, such as the route's: https://api.example.com.",
      );
    return {
      status: "done" as const,
      found: url,
      value: createEdgeClient(url, worker.name, { apiKey: options.apiKey, version: versionId }),
    };
  });
  const tried: TriedModel[] = models.map(({ model, version }) => ({
    model,
    version,
    trials: trials.get(model) ?? [],
  }));
  await steps.run("warm", async () => ({
    status: "done",
    found: await warm(edge, tried, options.patienceMs),
    value: undefined,
  }));
  await steps.run("smoke test", async () => ({
    status: "done",
    found: await smokeTest(edge, tried),
    value: undefined,
  }));
  for (const one of tried)
    await steps.run(`promote ${one.model}`, (changes) =>
      moveAlias(edge, store, one, options, changes),
    );
  return { url, versionId, models };
}

/** What would fail later is found before anything is changed. */
async function check(
  { worker, secrets, dryRun }: DeployOptions,
  wrangler: Wrangler,
  store: ModelStore,
) {
  const given = Object.keys(secrets);
  const found: string[] = [];
  await store.listModels();
  found.push("the model store answers");
  const set = await wrangler.secrets();
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
  if (!dryRun) throwAll(problems);
  found.push(...problems.map(({ detail, remedy }) => `NOT READY: ${detail} ${remedy}`));
  const unknown = unknownVariables([...have]);
  if (unknown.length > 0) found.push(`no edge reads ${unknown.join(", ")}: misspelt?`);
  if (given.length > 0 && !dryRun) await wrangler.setSecrets(secrets);
  found.push(
    `secrets: ${[...(set ?? []), ...given].length === 0 ? "none" : [...new Set([...(set ?? []), ...given])].toSorted().join(", ")}${given.length === 0 ? "" : ` (${dryRun ? "would be set" : "set now"}: ${given.join(", ")})`}`,
  );
  const current = set === undefined ? undefined : await wrangler.current();
  found.push(
    current === undefined
      ? `the Worker ${worker.name} answers nobody yet`
      : `version ${current.id} of the Worker ${worker.name} answers`,
  );
  return { status: "done" as const, found, value: { current, problems } };
}

function throwAll(problems: readonly EdgeTierError[]): void {
  if (problems.length > 0) throw problems.length === 1 ? problems[0] : new AggregateError(problems);
}

async function examine({ folder, log, signal }: DeployOptions) {
  const config = await readDeploymentConfig(folder);
  const { measured, report } = await measureDeployment({ log, signal });
  const diagnosis = diagnose(measured, { config, limits: config.limits, engine: report.engine });
  if (!diagnosis.ok) throw new AggregateError(problemsIn(diagnosis));
  return {
    status: "done" as const,
    found: `${diagnosis.checks.filter(({ limit }) => limit !== null).length} measures within their limits`,
    value: undefined,
  };
}

async function build({ sources, scratchFolder, log, signal }: DeployOptions) {
  const deployment = await buildProjectDeployment(sources, { log });
  const upload = await bundleWorker(join(scratchFolder, "worker.bundle"), { signal });
  return {
    status: deployment.cached ? ("already" as const) : ("done" as const),
    found: `${mebibytes(upload)} MiB to upload, ${tagOf(upload)}`,
    value: { deployment, upload },
  };
}

async function publish(
  { modelsFolder, dryRun, log }: DeployOptions,
  sources: readonly PublishSource[],
  store: ModelStore,
) {
  const models: { model: string; version: number }[] = [];
  const found: string[] = [];
  for (const source of sources) {
    const { model } = source.project;
    if (dryRun) {
      found.push(
        `${model}: as version ${((await store.listVersions(model)).at(-1) ?? 0) + 1}, unless its content is there`,
      );
      continue;
    }
    const publishing = await publishingFacts(
      join(modelsFolder, model),
      `edgetier deploy ${model}`,
    ).catch(() => undefined);
    const { version, outcome } = await publishModel(
      store,
      (await makeProjectSnapshots(source, log)).source,
      { alias: ALIAS_BEFORE, ...(publishing === undefined ? {} : { publishing }) },
    );
    models.push({ model, version });
    found.push(`${model}@${version}${outcome === "unchanged" ? ", in the store already" : ""}`);
  }
  const status = dryRun
    ? ("would" as const)
    : found.every((line) => line.endsWith("already"))
      ? ("already" as const)
      : ("done" as const);
  return { status, found, value: models };
}

async function uploadWorker(
  { worker }: DeployOptions,
  wrangler: Wrangler,
  upload: Upload,
  before: DeployedVersion | undefined,
  changes: (undo: Undo) => void,
) {
  const tag = tagOf(upload);
  if (before?.tag === tag)
    return {
      status: "already" as const,
      found: `version ${before.id}`,
      value: { versionId: before.id, addresses: [] },
    };
  changes({
    what:
      before === undefined
        ? `the new Worker ${worker.name}`
        : `the Worker, to version ${before.id}`,
    byHand:
      before === undefined
        ? `\`npx wrangler delete --name ${worker.name}\``
        : `\`npx wrangler rollback ${before.id}\``,
    async run() {
      const now = await wrangler.current();
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
    found: [`version ${deployed.versionId}`, ...deployed.addresses],
    value: deployed,
  };
}

/** wrangler tells it only when it deploys: it is kept for the next time. */
async function addressOf(
  told: string | undefined,
  { addressFile, worker: { name } }: DeployOptions,
): Promise<string | undefined> {
  if (told === undefined)
    return await readFile(addressFile, "utf8").then(
      (text) => deployedAddress.safeParse(JSON.parse(text)).data?.[name],
      () => undefined,
    );
  await mkdir(dirname(addressFile), { recursive: true });
  await writeFile(addressFile, JSON.stringify({ [name]: told }));
  return told;
}

/** So that publishing knows what the edge can serve. */
async function noteEngine(
  deployment: BuiltDeployment,
  store: ModelStore,
  changes: (undo: Undo) => void,
) {
  const before = await store.readDeployedEngine();
  const engine = deployedEngine(deployment);
  if (JSON.stringify(before) === JSON.stringify(engine))
    return {
      status: "already" as const,
      found: "the store knows which is deployed",
      value: undefined,
    };
  if (before !== undefined) {
    changes({
      what: "the store's note of the engine",
      byHand: "`edgetier engine publish`, with the models that were deployed before",
      async run() {
        await store.writeDeployedEngine(before);
        return true;
      },
    });
  }
  await store.writeDeployedEngine(engine);
  return {
    status: "done" as const,
    found: `noted in the store: the ${engine.kind} one of ${engine.source.slice(0, TAG_CHARACTERS)}`,
    value: undefined,
  };
}

async function moveAlias(
  edge: Edge,
  store: ModelStore,
  { model, version }: TriedModel,
  { alias, patienceMs }: DeployOptions,
  changes: (undo: Undo) => void,
) {
  const named = async () => {
    const target = (await store.readAliases(model))?.aliases[alias];
    return target === undefined ? undefined : aliasedVersion(target);
  };
  const before = await named();
  if (before === version)
    return {
      status: "already" as const,
      found: `${alias} is version ${version}`,
      value: undefined,
    };
  if (before !== undefined) {
    changes({
      what: `${model}@${alias}, to version ${before}`,
      byHand: `\`edgetier model rollback ${model} --alias ${alias}\``,
      async run() {
        if ((await named()) !== version) return false;
        await rollback(store, model, alias);
        return true;
      },
    });
  }
  await promote(store, model, { kind: "version", version }, { alias });
  await expectAlias(edge, { model, version }, alias, patienceMs);
  return {
    status: "done" as const,
    found: `${alias} is version ${version}, and was ${before ?? "nothing"}`,
    value: undefined,
  };
}

/** Of everything that is uploaded. */
function tagOf({ modules, variables, compatibilityDate, compatibilityFlags }: Upload): string {
  return digestOf(
    JSON.stringify([
      variables,
      compatibilityDate,
      compatibilityFlags,
      modules.map(({ name, kind, bytes }) => [name, kind, digestOf(bytes)]),
    ]),
  ).slice(0, TAG_CHARACTERS);
}

const mebibytes = ({ modules }: Upload): string =>
  (modules.reduce((sum, { bytes }) => sum + bytes.byteLength, 0) / 1024 / 1024).toFixed(1);

const dryTrials = (trials: ReadonlyMap<string, readonly { readonly name: string }[]>): string[] => [
  "health",
  ...[...trials].map(
    ([model, all]) =>
      `${model}: ${all.map(({ name }) => name).join(", ") || "no samples"}; a cache hit`,
  ),
  "an error with its remedy",
];
