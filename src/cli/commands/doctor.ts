// `edgetier doctor`: measures a deployment against the platform's limits before it is deployed.

import { defineCommand } from "citty";
import * as z from "zod";
import { formatZodIssues } from "../../core/config.ts";
import { reasonOf } from "../../core/errors.ts";
import {
  type DeploymentLimits,
  deploymentLimitsSchema,
  readDeploymentConfig,
} from "../../toolchain/deployment-config.ts";
import type { MeasuredGraph } from "../../toolchain/doctor-measurements.ts";
import {
  type LimitCheck,
  CHECK_TITLES,
  type Diagnosis,
  diagnose,
  limitErrors,
} from "../../toolchain/doctor.ts";
import { measureDeployment } from "../doctor/measure-deployment.ts";
import { cliErrors } from "../errors.ts";
import { PROJECT_ROOT } from "../local/paths.ts";
import { createShutdownSignal } from "../local/shutdown-signal.ts";
import {
  formatBytes,
  jsonArg,
  printJson,
  printLine,
  printWarning,
  renderTable,
} from "../output.ts";

export const command = defineCommand({
  meta: {
    name: "doctor",
    description:
      "Measure the deployment against the platform's limits before it is deployed; fails if one is exceeded",
  },
  args: {
    limits: {
      type: "string",
      valueHint: "json",
      description:
        "Limits that override edgetier.limits in package.json, for example '{\"engineGzipBytes\": 160000}'",
    },
    ...jsonArg,
  },
  async run({ args }) {
    const config = await readDeploymentConfig(PROJECT_ROOT, printWarning);
    const limits =
      args.limits === undefined ? config.limits : overrideLimits(config.limits, args.limits);
    const shutdown = createShutdownSignal();
    const { measured, report } = await measureDeployment({
      log: args.json ? () => {} : printLine,
      signal: shutdown.signal,
    }).catch((error: unknown) => {
      throw shutdown.signal.aborted ? cliErrors.interrupted(String(shutdown.signal.reason)) : error;
    });
    const diagnosis = diagnose(measured, { config, limits, engine: report.engine });
    if (args.json) printJson(diagnosis);
    else printLine(`\n${summary(diagnosis)}`);
    if (!diagnosis.ok) throw new AggregateError(limitErrors(diagnosis));
  },
});

/** Merges the JSON of `--limits` into the configured limits. @throws usage */
function overrideLimits(limits: DeploymentLimits, text: string): DeploymentLimits {
  const invalid = (problem: string) =>
    cliErrors.usage(`--limits ${text} is invalid: ${problem}`, "edgetier doctor");
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw invalid(reasonOf(error));
  }
  const changes = z.record(z.string(), z.unknown()).safeParse(json);
  if (!changes.success) throw invalid("expected a JSON object");
  const parsed = deploymentLimitsSchema.safeParse({ ...limits, ...changes.data });
  if (!parsed.success) throw invalid(formatZodIssues(parsed.error).join("; "));
  return parsed.data;
}

function summary({ checks, graphs, ok }: Diagnosis): string {
  const rows = checks.map((check) => [
    CHECK_TITLES[check.name],
    check.note ?? formatValue(check, check.measured),
    formatValue(check, check.limit),
    formatVerdict(check),
  ]);
  const tiers = graphs.map((graph) => [
    `${graph.model}/${graph.tier}`,
    describeStart(graph),
    graph.memoryBytes === null ? "-" : formatBytes(graph.memoryBytes),
    graph.measuredInputs ?? "none; not included in the figures above",
  ]);
  return [
    renderTable([["check", "measured", "limit", "ok"], ...rows]),
    ...(tiers.length === 0
      ? []
      : [renderTable([["edge tier", "start", "memory", "measured inputs"], ...tiers])]),
    ...(ok ? ["The deployment is within its limits."] : []),
  ].join("\n\n");
}

const formatValue = ({ unit }: LimitCheck, value: number | null): string =>
  value === null ? "-" : unit === "ms" ? `${Math.round(value)} ms` : formatBytes(value);
const formatVerdict = ({ limit, measured, ok }: LimitCheck): string =>
  limit === null || measured === null ? "-" : ok ? "yes" : "NO";

function describeStart({ status, reason }: MeasuredGraph): string {
  switch (status) {
    case "bundled":
      return "bundled snapshot, restored before the first request";
    case "snapshot":
      return "snapshot in the model store";
    case "plain":
      return "model in the model store, with the full engine";
    case "unsupported":
      return `unsupported: ${reason}`;
  }
}
