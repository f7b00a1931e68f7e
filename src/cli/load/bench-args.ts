// The options of `edgetier bench`, and the plan that they make.

import { cliErrors } from "../errors.ts";
import type { ArgsDef, ParsedArgs } from "citty";
import { parseCount } from "../commands/samples-args.ts";
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
      "Address of an edge, or of another server; otherwise the local system's, http://127.0.0.1:8787",
    required: false,
  },
  model: {
    type: "string",
    valueHint: "ref",
    description: "name, name@version or name@alias",
    required: true,
  },
  rate: {
    type: "string",
    valueHint: "per second",
    description: "Calls a second: 100 by default; with --find-rate, where to begin",
  },
  rates: { type: "string", valueHint: "a,b,c", description: "Several rates, one after the other" },
  "find-rate": { type: "boolean", description: "Search the highest rate that holds --slo" },
  duration: {
    type: "string",
    valueHint: "time",
    default: "10s",
    description: "Of each rate: 500ms, 30s, 5m",
  },
  "warm-up": {
    type: "string",
    valueHint: "time",
    default: "2s",
    description: "At the same rate before it, not counted",
  },
  slo: {
    type: "string",
    valueHint: "ms",
    description:
      "The objective: so long may a call take at --percentile. Where it is missed, the exit code is 1",
  },
  percentile: {
    type: "string",
    valueHint: "number",
    default: "99",
    description: "Of the objective",
  },
  strict: {
    type: "boolean",
    description:
      "Exit with 1 as well where there are too few samples to show that the objective is held",
  },
  arrivals: {
    type: "enum",
    options: [...ARRIVALS],
    default: "poisson",
    description: "poisson as from many users, or constant distances",
  },
  protocol: {
    type: "enum",
    options: [...PROTOCOLS],
    description:
      "/v1 predict, /v1/embeddings, or /v2 infer with tensors as bytes; otherwise by the model's task",
  },
  inputs: {
    type: "string",
    valueHint: "path",
    description:
      'One input a line, drawn at random: "a text", {"text"}, {"b64": "<an image>"}; for infer {"inputs": [{"name", "shape", "data"}]}. Otherwise they are made up',
  },
  file: {
    type: "string",
    valueHint: "path",
    description: "A file that is the one input, such as a JPEG or PNG",
  },
  cache: {
    type: "enum",
    options: ["use", "bypass", "refresh"],
    default: "use",
    description: "bypass has every answer computed",
  },
  deadline: { type: "string", valueHint: "ms", description: "Sent as x-deadline-ms" },
  timeout: {
    type: "string",
    valueHint: "ms",
    default: "10000",
    description: "After which a call is given up",
  },
  connections: {
    type: "string",
    valueHint: "count",
    default: "256",
    description: "At most so many at once; calls beyond that wait, and the wait counts",
  },
  header: {
    type: "string",
    valueHint: "name: value",
    description:
      "Sent with every call; may be given several times. A key goes into EDGETIER_API_KEY",
  },
  seed: {
    type: "string",
    valueHint: "n",
    default: "1",
    description: "Of arrivals and of what is asked",
  },
  html: {
    type: "string",
    valueHint: "file",
    description: "Write the report as a page with plots, too",
  },
  ...jsonArg,
});

type BenchArgs = ParsedArgs<typeof benchArgs>;

/** @throws usage */
export function parseBenchArgs(args: BenchArgs): LoadPlan {
  if (args.rates !== undefined && (args.rate !== undefined || args["find-rate"] === true))
    throw cliErrors.usage("Give --rates alone, without --rate and --find-rate", BENCH_COMMAND);
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
    throw cliErrors.usage("--duration is 0, and must be longer", BENCH_COMMAND);
  const most =
    plan.rates.kind === "search"
      ? (plan.rates.startRate ?? 0)
      : Math.max(...plan.rates.ratesPerSecond);
  const calls = (most * (plan.durationMs + plan.warmUpMs)) / 1_000;
  if (calls > MAX_CALLS)
    throw cliErrors.usage(
      `${most} a second for so long are ${Math.round(calls)} calls, and at most ${MAX_CALLS} fit into memory`,
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
    throw cliErrors.usage("--find-rate needs --slo: what is to be held", BENCH_COMMAND);
  return { kind: "search", startRate, objective };
}

const parseObjective = (ms: string, percentile: string): Objective => ({
  ms: parseNumber("--slo", ms, 0, 3_600_000),
  percentile: parseNumber("--percentile", percentile, 1, 99.999),
});

/** Above `above`, up to `most`. */
function parseNumber(option: string, text: string, above: number, most: number): number {
  const value = /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : Number.NaN;
  if (!(value > above && value <= most))
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(text)}, and must be a number above ${above}, at most ${most}`,
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
      `${option} is ${JSON.stringify(text)}, and must be a time such as 500ms, 30s or 5m, at most a day`,
      BENCH_COMMAND,
    );
  return ms;
}

/** @param given as `name: value` @throws usage */
export function parseHeaders(
  given: readonly string[],
  {
    apiKey,
    deadline,
  }: { readonly apiKey: string | undefined; readonly deadline: string | undefined },
): Record<string, string> {
  const deadlineMs = parseCount("--deadline", deadline, BENCH_COMMAND, 600_000);
  const own = given.map((header): [string, string] => {
    const [, name = "", value = ""] =
      /^([!#$%&'*+\-.^_`|~\w]+):\s*([\x20-\x7e]*)$/.exec(header) ?? [];
    if (name === "")
      throw cliErrors.usage(
        `--header ${JSON.stringify(header)} is not of the form "name: value"`,
        BENCH_COMMAND,
      );
    return [name.toLowerCase(), value];
  });
  return {
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    ...(deadlineMs === undefined ? {} : { "x-deadline-ms": String(deadlineMs) }),
    ...Object.fromEntries(own),
  };
}

/** What to say beforehand where the plan cannot show that the objective is held. */
export function warnTooFewSamples({ objective, rates, durationMs }: LoadPlan): string | undefined {
  if (objective === undefined || rates.kind === "search") return undefined;
  const [rate, needed] = [
    Math.min(...rates.ratesPerSecond),
    minSamples(objective.percentile / 100),
  ];
  if ((rate * durationMs) / 1_000 >= needed) return undefined;
  return `A p${objective.percentile} takes ${needed} samples with none over it to show: at ${rate} a second, --duration ${Math.ceil(needed / rate)}s or more.`;
}
