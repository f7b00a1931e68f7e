// Bench arguments: the options of `edgetier bench`, and the load plan that they describe.

import type { ArgsDef, ParsedArgs } from "citty";
import { parseCount } from "../commands/samples-args.ts";
import { cliErrors } from "../errors.ts";
import { jsonArg } from "../output.ts";
import { ARRIVALS } from "./arrivals.ts";
import { minSamples } from "./percentile-bound.ts";
import { type LoadPlan, MAX_CALLS } from "./run-load.ts";
import type { Objective } from "./summarize-trial.ts";
import { PROTOCOLS } from "./target.ts";

export const BENCH_COMMAND = "edgetier bench";
const MAX_RATE = 1_000_000;
const MAX_SECONDS = 86_400;

const defineArgs = <const Args extends ArgsDef>(args: Args): Args => args;

export const benchArgs = defineArgs({
  url: {
    type: "positional",
    description:
      "Address of an edge or another server; by default the local system's, http://127.0.0.1:8787",
    required: false,
  },
  model: {
    type: "string",
    valueHint: "ref",
    description: "Model reference: name, name@version or name@alias",
    required: true,
  },
  rate: {
    type: "string",
    valueHint: "per second",
    description: "Calls per second; by default 100. With --find-rate, the start of the search",
  },
  rates: {
    type: "string",
    valueHint: "a,b,c",
    description: "Comma-separated rates to test one after another",
  },
  "find-rate": { type: "boolean", description: "Search the highest rate that meets --slo" },
  duration: {
    type: "string",
    valueHint: "time",
    default: "10s",
    description: "Duration per rate, such as 500ms, 30s or 5m",
  },
  "warm-up": {
    type: "string",
    valueHint: "time",
    default: "2s",
    description: "Duration of the warm-up at the same rate, which does not count",
  },
  slo: {
    type: "string",
    valueHint: "ms",
    description: "Objective: maximum latency at --percentile. The exit code is 1 if it is missed",
  },
  percentile: {
    type: "string",
    valueHint: "number",
    default: "99",
    description: "Percentile of the objective",
  },
  strict: {
    type: "boolean",
    description: "Also exit with 1 if there are too few samples to show that the objective is met",
  },
  arrivals: {
    type: "enum",
    options: [...ARRIVALS],
    default: "poisson",
    description: "Arrival process: poisson as from independent users, or constant gaps",
  },
  protocol: {
    type: "enum",
    options: [...PROTOCOLS],
    description:
      "API: /v1 predict, /v1/embeddings, or /v2 infer with binary tensors; by default by the model's task",
  },
  inputs: {
    type: "string",
    valueHint: "path",
    description:
      'File with one input per line, drawn at random: "a text", {"text"}, {"b64": "<an image>"}; for infer {"inputs": [{"name", "shape", "data"}]}. By default generated',
  },
  file: {
    type: "string",
    valueHint: "path",
    description: "File that is the only input, such as a JPEG or PNG",
  },
  cache: {
    type: "enum",
    options: ["use", "bypass", "refresh"],
    default: "use",
    description: "Cache mode; bypass computes every answer",
  },
  deadline: { type: "string", valueHint: "ms", description: "Deadline, sent as x-deadline-ms" },
  timeout: {
    type: "string",
    valueHint: "ms",
    default: "10000",
    description: "Timeout of a call",
  },
  connections: {
    type: "string",
    valueHint: "count",
    default: "256",
    description: "Maximum connections; further calls wait, and the wait counts as latency",
  },
  header: {
    type: "string",
    valueHint: "name: value",
    description: "Header of every call; repeatable. Use EDGETIER_API_KEY for an API key",
  },
  seed: {
    type: "string",
    valueHint: "n",
    default: "1",
    description: "Seed of arrivals and inputs",
  },
  html: {
    type: "string",
    valueHint: "file",
    description: "Also write the report as an HTML page with plots",
  },
  ...jsonArg,
});

type BenchArgs = ParsedArgs<typeof benchArgs>;

/** @throws usage */
export function parseBenchArgs(args: BenchArgs): LoadPlan {
  if (args.rates !== undefined && (args.rate !== undefined || args["find-rate"] === true))
    throw cliErrors.usage(
      "--rates excludes --rate and --find-rate; pass only one of them",
      BENCH_COMMAND,
    );
  const objective = args.slo === undefined ? undefined : parseObjective(args.slo, args.percentile);
  const plan: LoadPlan = {
    arrivals: args.arrivals,
    seed: parseCount("--seed", args.seed, BENCH_COMMAND),
    durationMs: parseDurationMs("--duration", args.duration),
    warmUpMs: parseDurationMs("--warm-up", args["warm-up"]),
    timeoutMs: parseCount("--timeout", args.timeout, BENCH_COMMAND, 3_600_000),
    connections: parseCount("--connections", args.connections, BENCH_COMMAND, 10_000),
    objective,
    rates: parseRates(args, objective),
  };
  if (plan.durationMs === 0)
    throw cliErrors.usage("--duration is 0; expected a longer time", BENCH_COMMAND);
  const maxRate =
    plan.rates.kind === "search"
      ? (plan.rates.startRate ?? 0)
      : Math.max(...plan.rates.ratesPerSecond);
  const calls = (maxRate * (plan.durationMs + plan.warmUpMs)) / 1_000;
  if (calls > MAX_CALLS)
    throw cliErrors.usage(
      `${maxRate} calls per second for this duration are ${Math.round(calls)} calls, but memory is limited to ${MAX_CALLS}; lower --rate or --duration`,
      BENCH_COMMAND,
    );
  return plan;
}

function parseRates(args: BenchArgs, objective: Objective | undefined): LoadPlan["rates"] {
  const startRate =
    args.rate === undefined ? undefined : parseNumber("--rate", args.rate, 0, MAX_RATE);
  if (args["find-rate"] !== true)
    return {
      kind: "fixed",
      ratesPerSecond:
        args.rates === undefined
          ? [startRate ?? 100]
          : args.rates.split(",").map((rate) => parseNumber("--rates", rate, 0, MAX_RATE)),
    };
  if (objective === undefined)
    throw cliErrors.usage("--find-rate needs an objective; pass --slo", BENCH_COMMAND);
  return { kind: "search", startRate, objective };
}

const parseObjective = (ms: string, percentile: string): Objective => ({
  ms: parseNumber("--slo", ms, 0, 3_600_000),
  percentile: parseNumber("--percentile", percentile, 1, 99.999),
});

/** Parses a number above `above` and at most `max`. @throws usage */
function parseNumber(option: string, text: string, above: number, max: number): number {
  const value = /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : Number.NaN;
  if (!(value > above && value <= max))
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(text)}; expected a number above ${above} and at most ${max}`,
      BENCH_COMMAND,
    );
  return value;
}

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  "": 1_000,
  m: 60_000,
  h: 3_600_000,
};

function parseDurationMs(option: string, text: string): number {
  const [, digits, unit = ""] = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h)?$/.exec(text.trim()) ?? [];
  const ms = Number(digits) * (UNITS_MS[unit] ?? Number.NaN);
  if (!(ms >= 0 && ms <= 1_000 * MAX_SECONDS))
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(text)}; expected a time such as 500ms, 30s or 5m, at most a day`,
      BENCH_COMMAND,
    );
  return ms;
}

/**
 * Builds the headers of every call.
 * @param given headers in the form `name: value`
 * @throws usage
 */
export function parseHeaders(
  given: readonly string[],
  {
    apiKey,
    deadline,
  }: { readonly apiKey: string | undefined; readonly deadline: string | undefined },
): Record<string, string> {
  const deadlineMs = parseCount("--deadline", deadline, BENCH_COMMAND, 600_000);
  const entries = given.map((header): [string, string] => {
    const [, name = "", value = ""] =
      /^([!#$%&'*+\-.^_`|~\w]+):\s*([\x20-\x7e]*)$/.exec(header) ?? [];
    if (name === "")
      throw cliErrors.usage(
        `--header is ${JSON.stringify(header)}; expected the form "name: value"`,
        BENCH_COMMAND,
      );
    return [name.toLowerCase(), value];
  });
  return {
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    ...(deadlineMs === undefined ? {} : { "x-deadline-ms": String(deadlineMs) }),
    ...Object.fromEntries(entries),
  };
}

/** Returns a warning if the plan has too few samples to show that the objective is met. */
export function warnTooFewSamples({ objective, rates, durationMs }: LoadPlan): string | undefined {
  if (objective === undefined || rates.kind === "search") return undefined;
  const [rate, needed] = [
    Math.min(...rates.ratesPerSecond),
    minSamples(objective.percentile / 100),
  ];
  if ((rate * durationMs) / 1_000 >= needed) return undefined;
  return `Showing a p${objective.percentile} takes ${needed} samples without a violation. At ${rate} calls per second, pass --duration ${Math.ceil(needed / rate)}s or more.`;
}
