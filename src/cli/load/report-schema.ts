// Load report schema: the output of `edgetier bench --json`. Latencies run from a call's scheduled time to its last byte.

import * as z from "zod";
import { ARRIVALS } from "./arrivals.ts";

const milliseconds = z.number();
const count = z.int().min(0);
const share = z.number().min(0).max(1);

/** Counts by name of a tier or cache layer. */
const countedNames = z.array(z.object({ name: z.string(), count, share }));

const spread = z.object({ p50: milliseconds, p99: milliseconds, max: milliseconds });

export const percentileSchema = z.object({
  percentile: z.number().meta({ description: "Percentile; 99 is the p99." }),
  ms: milliseconds,
  atMostMs: milliseconds.nullable().meta({
    description:
      "Upper bound of the percentile of all responses with 99 % confidence. Null with too few samples.",
  }),
  samplesAbove: count,
});

export const trialSchema = z.object({
  ratePerSecond: z.number(),
  seconds: z.number().meta({ description: "Measured duration without the warm-up." }),
  scheduled: count,
  offeredPerSecond: z.number(),
  achievedPerSecond: z.number().meta({ description: "Answers within the measured time." }),
  answered: count,
  failed: count.meta({ description: "Failed calls, without timeouts." }),
  timedOut: count,
  unfinished: count.meta({ description: "Calls in flight when the load was stopped." }),
  latency: z.object({
    samples: count.meta({
      description: "Answers and timeouts. A timeout counts with its time limit.",
    }),
    minMs: milliseconds.nullable(),
    meanMs: milliseconds.nullable(),
    maxMs: milliseconds.nullable(),
    percentiles: z.array(percentileSchema),
  }),
  slo: z
    .object({
      ms: milliseconds,
      percentile: z.number(),
      confidence: share,
      samples: count,
      over: count.meta({ description: "Calls that were slower, failed or timed out." }),
      mostOver: count.nullable().meta({
        description:
          "Maximum violations with which the objective is shown to be met. Null if the samples are too few even without one.",
      }),
      verdict: z.enum(["held", "not shown", "missed"]),
    })
    .optional(),
  generator: z.object({
    sendLagMs: spread.meta({
      description:
        "Delay of sends behind the schedule. The generator causes it, and latencies include it.",
    }),
    connectionWaitMs: spread.meta({
      description: "Wait for a free connection, caused by the server or by --connections.",
    }),
    connectionsOpened: count,
    cores: z.number().meta({ description: "Processor time of the generator, in cores." }),
  }),
  errors: z.array(z.object({ code: z.string(), count, example: z.string() })),
  degraded: z.object({ count, share }),
  tiers: countedNames,
  caches: countedNames,
  phases: z
    .array(
      z.object({ phase: z.string(), samples: count, p50Ms: milliseconds, p99Ms: milliseconds }),
    )
    .meta({ description: "Phases in the responses' `server-timing`." }),
  histogram: z.array(z.object({ fromMs: milliseconds, toMs: milliseconds, count })),
  series: z.object({
    stepSeconds: z.number(),
    points: z.array(
      z.object({
        atSeconds: z.number(),
        offered: count,
        answered: count,
        failed: count,
        p50Ms: milliseconds.nullable(),
        p99Ms: milliseconds.nullable(),
      }),
    ),
  }),
  warnings: z.array(z.string()),
});

export const loadReportSchema = z.object({
  edgetier: z.string().meta({ description: "Version of edgetier." }),
  startedAt: z.iso.datetime(),
  url: z.string(),
  model: z.string(),
  protocol: z.enum(["predict", "embeddings", "infer"]),
  inputs: z.object({ count, source: z.string() }),
  cache: z.string(),
  arrivals: z.enum(ARRIVALS),
  seed: z.int(),
  connections: z.int(),
  timeoutMs: z.int(),
  warmUpSeconds: z.number(),
  trials: z.array(trialSchema),
  highestRatePerSecond: z.number().nullable().optional().meta({
    description: "Highest rate that meets the objective, in a search. Null if none did.",
  }),
  isInterrupted: z.boolean(),
});

export type Trial = z.output<typeof trialSchema>;
export type Percentile = z.output<typeof percentileSchema>;
export type LoadReport = z.output<typeof loadReportSchema>;
