// `edgetier deploy`: deploys the Worker and its models step by step, tests the result, and rolls back on failure.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineCommand } from "citty";
import * as z from "zod";
import { httpUrlText, parseConfig } from "../../core/config.ts";
import { reasonOf } from "../../core/errors.ts";
import { EDGE_SECRETS } from "../../http/edge-variables.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { readProjects } from "../../toolchain/project.ts";
import { readAliasName } from "../alias-args.ts";
import { deploy } from "../deploy/deploy.ts";
import { createStepRunner, type StepReport } from "../deploy/step-runner.ts";
import { createWrangler } from "../deploy/wrangler.ts";
import { cliErrors } from "../errors.ts";
import { MODELS_FOLDER, PROJECT_ROOT, STATE_FOLDER, WRANGLER_CONFIG } from "../local/paths.ts";
import { createShutdownSignal } from "../local/shutdown-signal.ts";
import { jsonArg, printJson, printLine, createProgressPrinter } from "../output.ts";
import { readSigningKeys, signingArgs } from "../signing-args.ts";
import { openPublishingStore, storeArgs } from "../store-args.ts";
import { parseCount } from "./samples-args.ts";

const NAME = "edgetier deploy";

const schema = z.object({
  EDGETIER_URL: httpUrlText().optional(),
  EDGETIER_API_KEY: z.string().min(1).optional(),
});

export const command = defineCommand({
  meta: {
    name: "deploy",
    description:
      "Check, build, publish, deploy, warm up and test. Clients get the new versions last; a failed test rolls everything back. Another run skips the steps that are done",
  },
  args: {
    models: {
      type: "string",
      valueHint: "names",
      description:
        "Comma-separated names of the model projects to publish; by default all under models/",
    },
    alias: {
      type: "string",
      valueHint: "name",
      description: "Alias to move to the new versions after the smoke test",
      default: "stable",
    },
    url: {
      type: "string",
      valueHint: "url",
      description:
        "Address of the deployed edge; by default EDGETIER_URL, or the address that wrangler prints",
    },
    patience: {
      type: "string",
      valueHint: "seconds",
      description: "Maximum time for new versions and addresses to propagate",
      default: "60",
    },
    "set-secrets": {
      type: "boolean",
      description: `Set the Worker's secrets from environment variables: ${EDGE_SECRETS.join(", ")}`,
    },
    doctor: {
      type: "boolean",
      description: "Measure the deployment against the platform's limits before the upload",
      default: true,
      negativeDescription: "Skip the measurement",
    },
    "dry-run": {
      type: "boolean",
      description: "Show every step, and run only those that change nothing",
    },
    ...signingArgs,
    ...storeArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const json = args.json === true;
    const { EDGETIER_URL, EDGETIER_API_KEY } = parseConfig(schema, {
      ...process.env,
      ...(args.url === undefined ? {} : { EDGETIER_URL: args.url }),
    });
    const alias = readAliasName(args.alias, NAME);
    if (args["s3-endpoint"] === undefined && (process.env["EDGETIER_S3_ENDPOINT"] ?? "") === "")
      throw cliErrors.usage(
        "The model store of the deployment is unknown; set EDGETIER_S3_ENDPOINT and its credentials, or pass --s3-endpoint",
        NAME,
      );
    const store = openPublishingStore(args, await readSigningKeys(args["sign-key"], NAME));
    const log = createProgressPrinter(json);
    const sources = await readProjects(MODELS_FOLDER, log);
    const models = selectModels(sources, args.models);
    const shutdown = createShutdownSignal();
    const steps = createStepRunner({
      signal: shutdown.signal,
      onStart: (step) => log(`${step} …`),
      onReport: (report) => json || printStep(report),
    });
    const scratchFolder = await mkdtemp(join(tmpdir(), "edgetier-deploy-"));
    try {
      const deployed = await deploy(
        {
          sources,
          models,
          modelsFolder: MODELS_FOLDER,
          configFolder: PROJECT_ROOT,
          scratchFolder,
          worker: await readWorker(),
          alias,
          url: EDGETIER_URL,
          addressFile: join(STATE_FOLDER, "deployed.json"),
          apiKey: EDGETIER_API_KEY,
          secrets: args["set-secrets"] === true ? pickSecrets(process.env) : {},
          isDryRun: args["dry-run"] === true,
          runsDoctor: args.doctor,
          propagationTimeoutMs: (parseCount("--patience", args.patience, NAME) ?? 60) * 1_000,
          log,
          signal: shutdown.signal,
        },
        { steps, wrangler: createWrangler(PROJECT_ROOT), store },
      );
      if (json) printJson({ ok: true, ...deployed, steps: steps.reports() });
      else if (deployed.versionId !== undefined) printLine(`\nDeployed: ${deployed.url}`);
    } catch (error) {
      if (json) printJson({ ok: false, steps: steps.reports() });
      throw shutdown.signal.aborted ? cliErrors.interrupted(String(shutdown.signal.reason)) : error;
    } finally {
      await rm(scratchFolder, { recursive: true, force: true });
    }
  },
});

function printStep({ step, status, found, seconds }: StepReport): void {
  const [first = "", ...more] = found;
  printLine(
    `${step.padEnd(14)}  ${status.padEnd(10)}  ${`${seconds.toFixed(1)} s`.padStart(7)}  ${first}`.trimEnd(),
  );
  for (const line of more) printLine(`${" ".repeat(37)}${line}`);
}

/** Selects the models that `--models` names, or all. @throws usage */
function selectModels(
  sources: readonly PublishSource[],
  names: string | undefined,
): readonly string[] {
  const all = sources.map(({ project }) => project.model);
  const selected = names?.split(",").map((name) => name.trim()) ?? all;
  const unknown = selected.filter((name) => !all.includes(name));
  if (unknown.length > 0)
    throw cliErrors.usage(
      `--models names unknown projects ${unknown.join(", ")}; expected some of ${all.join(", ")}`,
      NAME,
    );
  return selected;
}

/** Reads the Worker's name and variables from wrangler.toml. @throws not_deployable */
async function readWorker(): Promise<{
  name: string;
  variables: Readonly<Record<string, unknown>>;
}> {
  const { unstable_readConfig: readConfig } = await import("wrangler");
  try {
    const { name, vars } = readConfig({ config: WRANGLER_CONFIG }, { hideWarnings: true });
    if (name === undefined) throw new Error("`name` is missing");
    return { name, variables: vars };
  } catch (error) {
    throw cliErrors.notDeployable(
      `${WRANGLER_CONFIG} is invalid: ${reasonOf(error).split("\n")[0]}`,
      "Create one with `edgetier init`.",
    );
  }
}

const pickSecrets = (environment: NodeJS.ProcessEnv): Record<string, string> =>
  Object.fromEntries(
    EDGE_SECRETS.flatMap((name) =>
      environment[name] === undefined || environment[name] === ""
        ? []
        : [[name, environment[name]]],
    ),
  );
