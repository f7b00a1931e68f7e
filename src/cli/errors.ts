// Errors of commands.

import type { ErrorCode } from "../core/error-code.ts";
import { EdgeTierError, errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const cliErrorTable = {
  component_died: { status: 500, remedy: "See the output above it, and start again." },
  not_measured: { status: 500, remedy: "Correct that and run `edgetier doctor` again." },
  interrupted: { status: 499, remedy: "Run it again." },
  usage: { status: 400, remedy: "`{command} --help` tells how it is used." },
  edge_unreachable: {
    status: 503,
    remedy: "Start the local system with `npm start`, or name another address.",
    isRetryable: true,
  },
  agreement_missed: {
    status: 400,
    remedy:
      "Calibrate otherwise (--calibration, --correct-biases, --equalise), give more samples, or lower --min-agreement.",
  },
  fp16_overflow: {
    status: 400,
    remedy: "Keep what makes them in FP32, with --keep and its operator or name.",
  },
  slo_missed: {
    status: 400,
    remedy:
      "Raise sloMs in its model.json, or make its tiers faster: `edgetier model profile` shows where the time goes.",
  },
  wrangler_failed: {
    status: 502,
    remedy:
      "`npx wrangler whoami` tells the account; CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID name it where there is no browser.",
  },
  secrets_missing: { status: 400, remedy: "Set them with `npx wrangler secret put <name>`." },
  not_deployable: { status: 400, remedy: "Correct the configuration and deploy again." },
  smoke_test_failed: {
    status: 502,
    remedy: "`npx wrangler tail` shows the Worker's log; correct it and deploy again.",
  },
  deployment_undone: { status: 502, remedy: "Correct the cause and deploy again." },
  template_exists: { status: 409, remedy: "Choose another name, or delete it." },
  purge_failed: { status: 502, remedy: "{remedy}.", isRetryable: true },
  state_unreadable: {
    status: 400,
    remedy: "Delete it to begin again, or name another with --state.",
  },
  not_precomputed: {
    status: 502,
    remedy: "The same command asks all again; what is cached costs little.",
  },
  slo_not_shown: { status: 503, remedy: "Measure longer, with --duration." },
} as const satisfies ErrorTable;

/** A code sent by an edge, which may be of another version and know other codes. */
const remoteCode = (code: string) => code as ErrorCode;

const makeError = errorFactory(cliErrorTable);

export const cliErrors = {
  componentDied: (what: string, how: string) =>
    makeError("component_died", `The ${what} ended unexpectedly (${how}).`),
  notMeasured: (what: string, reason: string, cause?: unknown) =>
    makeError("not_measured", `${what} could not be measured: ${reason}.`, { cause }),
  interrupted: (by: string) => makeError("interrupted", `Stopped by ${by} before it was done.`),
  usage: (problem: string, command: string) =>
    makeError("usage", `${problem}.`, { values: { command } }),
  edgeUnreachable: (url: string, reason: string, cause?: unknown) =>
    makeError("edge_unreachable", `Nothing answers at ${url}: ${reason}.`, { cause }),
  edgeRefused: (code: string, status: number, detail: string, remedy: string) =>
    new EdgeTierError({ code: remoteCode(code), status, detail, remedy }),
  agreementMissed: (agreement: number, bound: number, kept: number) =>
    makeError(
      "agreement_missed",
      `Only ${(100 * agreement).toFixed(1)} % of the samples have the same argmax, with ${kept} layers in FP32; ${(100 * bound).toFixed(1)} % are wanted.`,
    ),
  fp16Overflow: (lost: readonly string[]) =>
    makeError(
      "fp16_overflow",
      `In FP16, numbers are not finite that are in FP32: ${lost.join(", ")}.`,
    ),
  sloMissed: (model: string, classMs: number, p99Ms: number) =>
    makeError(
      "slo_missed",
      `${model} promises a p99 of ${classMs} ms, and has one of ${p99Ms.toFixed(2)} ms here.`,
    ),
  wranglerFailed: (command: string, output: string) =>
    makeError(
      "wrangler_failed",
      `\`wrangler ${command}\` failed: ${output.trim().replace(/\.$/, "")}.`,
    ),
  secretsMissing: (worker: string, names: readonly string[]) =>
    makeError("secrets_missing", `The Worker ${worker} lacks ${names.join(", ")}.`, {
      remedy: `\`npx wrangler secret put ${names[0] ?? "<name>"}\`, and so on; or have them in the environment and give --set-secrets.`,
    }),
  notDeployable: (problem: string, remedy: string) =>
    makeError("not_deployable", `${problem}.`, { remedy }),
  smokeTestFailed: (what: string, reason: string) =>
    makeError(
      "smoke_test_failed",
      `The deployment does not answer as it should: ${what}: ${reason.replace(/\.$/, "")}.`,
    ),
  wentBack: (
    step: string,
    cause: EdgeTierError,
    undone: readonly string[],
    left: readonly string[],
  ) =>
    makeError(
      "deployment_undone",
      `${step}: ${cause.detail} ${undone.length === 0 ? "Nothing had to be taken back." : `Taken back: ${undone.join("; ")}.`}`,
      { remedy: [cause.remedy, ...left.map((one) => `Not taken back: ${one}.`)].join(" "), cause },
    ),
  templateExists: (path: string) => makeError("template_exists", `${path} is there already.`),
  objectiveNotHeld: (isMissed: boolean, problems: readonly string[]) =>
    isMissed
      ? makeError("slo_missed", `${problems.join("; ")}.`, {
          status: 503,
          remedy: "The report's phases, tiers and cache layers say where the time goes.",
        })
      : makeError("slo_not_shown", `${problems.join("; ")}.`),
  purgeFailed: (tags: readonly string[], reason: string, remedy: string, cause?: unknown) =>
    makeError(
      "purge_failed",
      `The alias has moved, but the CDN may still answer with what it kept of ${tags.join(", ")}: ${reason}.`,
      { values: { remedy }, cause },
    ),
  stateUnreadable: (path: string, reason: string) =>
    makeError("state_unreadable", `${path} does not say what has been done: ${reason}.`),
  precomputeStopped: (code: string, detail: string, asked: number, count: number) =>
    new EdgeTierError({
      code: remoteCode(code),
      status: 503,
      detail: `The edge does not answer after ${asked} of ${count} inputs: ${detail}`,
      remedy: "The same command goes on from there.",
    }),
  notPrecomputed: (failed: number, asked: number) =>
    makeError("not_precomputed", `${failed} of ${asked} inputs have no answer that a cache keeps.`),
} as const;
