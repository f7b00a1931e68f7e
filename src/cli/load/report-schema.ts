// What `edgetier bench --json` prints. Milliseconds are from the scheduled moment of a call to the last byte of its answer.

import * as z from "zod";
import { ARRIVALS } from "./arrivals.ts";

const milliseconds = z.number();
const count = z.int().min(0);
const share = z.number().min(0).max(1);

/** Counts by name: tiers, cache layers. */
const countedNames = z.array(z.object({ name: z.string(), count, share }));

const spread = z.object({ p50: milliseconds, p99: milliseconds, max: milliseconds });

export const percentileSchema = z.object({
  percentile: z.number().meta({ description: "99 for the p99." }),
  ms: milliseconds,
  atMostMs: milliseconds.nullable().meta({
    description:
      "What bounds the percentile of all answers with 99 % confidence; null where there are too few samples.",
  }),
  samplesAbove: count,
});

export const trialSchema = z.object({
  ratePerSecond: z.number(),
  seconds: z.number().meta({ description: "Measured, without the warm-up." }),
  scheduled: count,
  offeredPerSecond: z.number(),
  achievedPerSecond: z
    .number()
    .meta({ description: "Answers that came within the time measured." }),
  answered: count,
  failed: count.meta({ description: "Time-outs are none of these." }),
  timedOut: count,
  unfinished: count.meta({ description: "Were running when the load was stopped." }),
  latency: z.object({
    samples: count.meta({
      description: "Answers, and time-outs with the time after which they were given up.",
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
      over: count.meta({ description: "Were slower, failed or timed out." }),
      mostOver: count.nullable().meta({
        description:
          "So many may be over that the objective is shown to be held; null: too few samples for that even with none.",
      }),
      verdict: z.enum(["held", "not shown", "missed"]),
    })
    .optional(),
  generator: z.object({
    sendLagMs: spread.meta({
      description:
        "How late calls were sent: the generator's own doing, and part of every latency.",
    }),
    connectionWaitMs: spread.meta({
      description: "Until a connection was free: the server's doing, or that of --connections.",
    }),
    connectionsOpened: count,
    cores: z.number().meta({ description: "Of processor time taken." }),
  }),
  errors: z.array(z.object({ code: z.string(), count, example: z.string() })),
  degraded: z.object({ count, share }),
  tiers: countedNames,
  caches: countedNames,
  phases: z
    .array(
      z.object({ phase: z.string(), samples: count, p50Ms: milliseconds, p99Ms: milliseconds }),
    )
    .meta({ description: "By the answers' `server-timing`." }),
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
  edgetier: z.string().meta({ description: "Version." }),
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
    description: "Of a search: the highest rate that holds the objective; null: none did.",
  }),
  isInterrupted: z.boolean(),
});

export type Trial = z.output<typeof trialSchema>;
export type Percentile = z.output<typeof percentileSchema>;
export type LoadReport = z.output<typeof loadReportSchema>;
