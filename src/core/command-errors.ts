// The errors of commands alone: deploy, init, bench, export, precompute, purges. Beside errors.ts, and not in it: the Worker would carry their texts.

import { type EdgeTierError, make } from "./errors.ts";

export const commandErrors = {
  wranglerFailed: (command: string, output: string) =>
    make(
      "wrangler_failed",
      502,
      `\`wrangler ${command}\` failed: ${output.trim().replace(/\.$/, "")}.`,
      "`npx wrangler whoami` tells the account; CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID name it where there is no browser.",
    ),
  secretsMissing: (worker: string, names: readonly string[]) =>
    make(
      "secrets_missing",
      400,
      `The Worker ${worker} lacks ${names.join(", ")}.`,
      `\`npx wrangler secret put ${names[0] ?? "<name>"}\`, and so on; or have them in the environment and give --set-secrets.`,
    ),
  notDeployable: (problem: string, remedy: string) =>
    make("not_deployable", 400, `${problem}.`, remedy),
  smokeTestFailed: (what: string, reason: string) =>
    make(
      "smoke_test_failed",
      502,
      `The deployment does not answer as it should: ${what}: ${reason.replace(/\.$/, "")}.`,
      "`npx wrangler tail` shows the Worker's log; correct it and deploy again.",
    ),
  wentBack: (
    step: string,
    cause: EdgeTierError,
    undone: readonly string[],
    left: readonly string[],
  ) =>
    make(
      "deployment_undone",
      502,
      `${step}: ${cause.detail} ${undone.length === 0 ? "Nothing had to be taken back." : `Taken back: ${undone.join("; ")}.`}`,
      [cause.remedy, ...left.map((one) => `Not taken back: ${one}.`)].join(" "),
      { cause },
    ),
  templateExists: (path: string) =>
    make("template_exists", 409, `${path} is there already.`, "Choose another name, or delete it."),
  objectiveNotHeld: (isMissed: boolean, problems: readonly string[]) =>
    make(
      isMissed ? "slo_missed" : "slo_not_shown",
      503,
      `${problems.join("; ")}.`,
      isMissed
        ? "The report's phases, tiers and cache layers say where the time goes."
        : "Measure longer, with --duration.",
    ),
  notExportable: (model: string, reason: string, remedy: string) =>
    make("not_exportable", 400, `${model} cannot be exported: ${reason}.`, remedy),
  purgeFailed: (tags: readonly string[], reason: string, remedy: string, cause?: unknown) =>
    make(
      "purge_failed",
      502,
      `The alias has moved, but the CDN may still answer with what it kept of ${tags.join(", ")}: ${reason}.`,
      `${remedy}.`,
      { retryable: true, cause },
    ),
  stateUnreadable: (path: string, reason: string) =>
    make(
      "state_unreadable",
      400,
      `${path} does not say what has been done: ${reason}.`,
      "Delete it to begin again, or name another with --state.",
    ),
  precomputeStopped: (code: string, detail: string, asked: number, count: number) =>
    make(
      code,
      503,
      `The edge does not answer after ${asked} of ${count} inputs: ${detail}`,
      "The same command goes on from there.",
    ),
  notPrecomputed: (failed: number, asked: number) =>
    make(
      "not_precomputed",
      502,
      `${failed} of ${asked} inputs have no answer that a cache keeps.`,
      "The same command asks all again; what is cached costs little.",
    ),
} as const;
