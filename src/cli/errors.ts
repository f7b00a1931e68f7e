// Errors of commands.

import type { ErrorCode } from "../core/error-code.ts";
import { EdgeTierError, errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const cliErrorTable = {
  component_died: { status: 500, remedy: "Read the output above, then start again." },
  not_measured: { status: 500, remedy: "Correct the cause, then run `edgetier doctor` again." },
  interrupted: { status: 499, remedy: "Run the command again." },
  usage: { status: 400, remedy: "Run `{command} --help` for usage." },
  edge_unreachable: {
    status: 503,
    remedy: "Start the local system with `npm start`, or pass another address.",
    isRetryable: true,
  },
  agreement_missed: {
    status: 400,
    remedy:
      "Choose other ranges (--range-method, --correct-biases, --equalize), pass more samples, or lower --min-agreement.",
  },
  fp16_overflow: {
    status: 400,
    remedy:
      "Keep the nodes that produce them in FP32: pass --keep with an operator or a node name.",
  },
  slo_missed: {
    status: 400,
    remedy:
      "Raise sloMs in model.json, or make the tiers faster. `edgetier model profile` shows where the time goes.",
  },
  wrangler_failed: {
    status: 502,
    remedy:
      "Check the account with `npx wrangler whoami`. Without a browser, set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID.",
  },
  secrets_missing: { status: 400, remedy: "Set them with `npx wrangler secret put <name>`." },
  not_deployable: { status: 400, remedy: "Correct the configuration, then deploy again." },
  smoke_test_failed: {
    status: 502,
    remedy: "Read the Worker's log with `npx wrangler tail`, correct the cause, then deploy again.",
  },
  deployment_undone: { status: 502, remedy: "Correct the cause, then deploy again." },
  template_exists: { status: 409, remedy: "Choose another name, or delete the folder." },
  purge_failed: { status: 502, remedy: "{remedy}.", isRetryable: true },
  state_unreadable: {
    status: 400,
    remedy: "Delete the file to start over, or pass another file with --state.",
  },
  not_precomputed: {
    status: 502,
    remedy: "Run the same command again; inputs that are cached cost little.",
  },
  slo_not_shown: { status: 503, remedy: "Measure longer, with --duration." },
} as const satisfies ErrorTable;

/** Accepts a code of an edge that may run another version, with codes that this one lacks. */
const remoteCode = (code: string) => code as ErrorCode;

const makeError = errorFactory(cliErrorTable);

const formatPercent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const withoutFullStop = (text: string): string => text.replace(/\.$/, "");

export const cliErrors = {
  componentDied: (service: string, ending: string) =>
    makeError("component_died", `The ${service} ended unexpectedly (${ending}).`),
  notMeasured: (subject: string, reason: string, cause?: unknown) =>
    makeError("not_measured", `${subject} could not be measured: ${reason}.`, { cause }),
  interrupted: (signal: string) =>
    makeError("interrupted", `The command was stopped by ${signal} before it finished.`),
  usage: (problem: string, command: string) =>
    makeError("usage", /[.?]$/.test(problem) ? problem : `${problem}.`, { values: { command } }),
  edgeUnreachable: (url: string, reason: string, cause?: unknown) =>
    makeError("edge_unreachable", `${url} does not respond as an edge: ${reason}.`, { cause }),
  edgeRefused: (code: string, status: number, detail: string, remedy: string) =>
    new EdgeTierError({ code: remoteCode(code), status, detail, remedy }),
  agreementMissed: (agreement: number, minAgreement: number, fp32Layers: number) =>
    makeError(
      "agreement_missed",
      `Argmax agreement is ${formatPercent(agreement)} with ${fp32Layers} layers in FP32, below --min-agreement ${formatPercent(minAgreement)}.`,
    ),
  fp16Overflow: (outputs: readonly string[]) =>
    makeError(
      "fp16_overflow",
      `Values that are finite in FP32 overflow in FP16: ${outputs.join(", ")}.`,
    ),
  sloMissed: (model: string, classMs: number, p99Ms: number) =>
    makeError(
      "slo_missed",
      `Latency class of ${model} is ${classMs} ms, but its measured p99 is ${p99Ms.toFixed(2)} ms.`,
    ),
  wranglerFailed: (command: string, output: string) =>
    makeError(
      "wrangler_failed",
      `\`wrangler ${command}\` failed: ${withoutFullStop(output.trim())}.`,
    ),
  secretsMissing: (worker: string, names: readonly string[]) =>
    makeError("secrets_missing", `The Worker ${worker} lacks the secrets ${names.join(", ")}.`, {
      remedy: `Run \`npx wrangler secret put ${names[0] ?? "<name>"}\` for each, or set them in the environment and pass --set-secrets.`,
    }),
  notDeployable: (problem: string, remedy: string) =>
    makeError("not_deployable", `${problem}.`, { remedy }),
  smokeTestFailed: (subject: string, reason: string) =>
    makeError(
      "smoke_test_failed",
      `The deployment failed its smoke test at ${subject}: ${withoutFullStop(reason)}.`,
    ),
  wentBack: (
    step: string,
    cause: EdgeTierError,
    undone: readonly string[],
    failedUndos: readonly string[],
  ) =>
    makeError(
      "deployment_undone",
      `Step ${step} failed: ${cause.detail} ${undone.length === 0 ? "No change had to be rolled back." : `Rolled back: ${undone.join("; ")}.`}`,
      {
        remedy: [cause.remedy, ...failedUndos.map((undo) => `Not rolled back: ${undo}.`)].join(" "),
        cause,
      },
    ),
  templateExists: (path: string) => makeError("template_exists", `${path} already exists.`),
  objectiveNotHeld: (isMissed: boolean, problems: readonly string[]) =>
    isMissed
      ? makeError("slo_missed", `${problems.join("; ")}.`, {
          status: 503,
          remedy: "Look at the report's phases, tiers and cache layers to see where the time goes.",
        })
      : makeError("slo_not_shown", `${problems.join("; ")}.`),
  purgeFailed: (tags: readonly string[], reason: string, remedy: string, cause?: unknown) =>
    makeError(
      "purge_failed",
      `The alias has moved, but the CDN may still serve cached responses of ${tags.join(", ")}: ${reason}.`,
      { values: { remedy }, cause },
    ),
  stateUnreadable: (path: string, reason: string) =>
    makeError("state_unreadable", `The progress file ${path} is invalid: ${reason}.`),
  precomputeStopped: (code: string, detail: string, processed: number, total: number) =>
    new EdgeTierError({
      code: remoteCode(code),
      status: 503,
      detail: `The edge stopped responding after ${processed} of ${total} inputs: ${detail}`,
      remedy: "Run the same command again; it resumes from there.",
    }),
  notPrecomputed: (failed: number, total: number) =>
    makeError("not_precomputed", `${failed} of ${total} inputs have no cacheable response.`),
} as const;
