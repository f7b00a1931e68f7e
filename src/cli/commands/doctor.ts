// `edgetier doctor`: what a deployment will take, before it is deployed, against its limits.

import { cliErrors } from "../errors.ts";
import { defineCommand } from "citty";
import * as z from "zod";
import {
  type DeploymentLimits,
  deploymentLimitsSchema,
  readDeploymentConfig,
} from "../../toolchain/deployment-config.ts";
import {
  type LimitCheck,
  CHECK_TITLES,
  type Diagnosis,
  diagnose,
  limitErrors,
} from "../../toolchain/doctor.ts";
import type { MeasuredGraph } from "../../toolchain/doctor-measurements.ts";
import { formatZodIssues } from "../../core/config.ts";
import { reasonOf } from "../../core/errors.ts";
import { measureDeployment } from "../doctor/measure-deployment.ts";
import { PROJECT_ROOT } from "../local/paths.ts";
import { createShutdownSignal } from "../local/shutdown-signal.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";

export const command = defineCommand({
  meta: {
    name: "doctor",
    description:
      "Measure what the deployment takes of the platform's limits, before it is deployed; fails where one is exceeded",
  },
  args: {
    limits: {
      type: "string",
      valueHint: "json",
      description:
        "Limits in place of those in package.json (key edgetier.limits), for example '{\"engineGzipBytes\": 160000}'",
    },
    ...jsonArg,
  },
  async run({ args }) {
    const config = await readDeploymentConfig(PROJECT_ROOT);
    const limits =
      args.limits === undefined ? config.limits : overrideLimits(config.limits, args.limits);
    const stop = createShutdownSignal();
    const { measured, report } = await measureDeployment({
      log: args.json ? () => {} : printLine,
      signal: stop.signal,
    }).catch((error: unknown) => {
      throw stop.signal.aborted ? cliErrors.interrupted(String(stop.signal.reason)) : error;
    });
    const diagnosis = diagnose(measured, { config, limits, engine: report.engine });
    if (args.json) printJson(diagnosis);
    else printLine(`\n${summary(diagnosis)}`);
    if (!diagnosis.ok) throw new AggregateError(limitErrors(diagnosis));
  },
});

/** @throws usage */
function overrideLimits(limits: DeploymentLimits, text: string): DeploymentLimits {
  const wrong = (problem: string) =>
    cliErrors.usage(`--limits ${text}: ${problem}`, "edgetier doctor");
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw wrong(reasonOf(error));
  }
  const changes = z.record(z.string(), z.unknown()).safeParse(json);
  if (!changes.success) throw wrong("it must be a JSON object");
  const parsed = deploymentLimitsSchema.safeParse({ ...limits, ...changes.data });
  if (!parsed.success) throw wrong(formatZodIssues(parsed.error).join("; "));
  return parsed.data;
}

function summary({ checks, graphs, ok }: Diagnosis): string {
  const rows = checks.map((check) => [
    CHECK_TITLES[check.name],
    check.note ?? shown(check, check.measured),
    shown(check, check.limit),
    verdict(check),
  ]);
  const tiers = graphs.map((graph) => [
    `${graph.model}/${graph.tier}`,
    describeStart(graph),
    graph.memoryBytes === null ? "-" : formatBytes(graph.memoryBytes),
    graph.measuredInputs ?? "none: not in the figures above",
  ]);
  return [
    renderTable([["what", "measured", "limit", "ok"], ...rows]),
    ...(tiers.length === 0
      ? []
      : [renderTable([["edge tier", "starts", "its memory", "measured on inputs"], ...tiers])]),
    ...(ok ? ["Within its limits."] : []),
  ].join("\n\n");
}

const shown = ({ unit }: LimitCheck, value: number | null): string =>
  value === null ? "-" : unit === "ms" ? `${Math.round(value)} ms` : formatBytes(value);
const verdict = ({ limit, measured, ok }: LimitCheck): string =>
  limit === null || measured === null ? "-" : ok ? "yes" : "NO";

function describeStart({ how, reason }: MeasuredGraph): string {
  switch (how) {
    case "bundled":
      return "bundled, restored before the first request";
    case "snapshot":
      return "from its snapshot in the store";
    case "plain":
      return "from the model in the store, with the full engine";
    case "not":
      return `not at all: ${reason}`;
  }
}
