// Warnings: finds reasons to distrust a trial's figures, such as a slow generator, few connections or cached answers.

import { formatMs, formatRate } from "./progress.ts";
import type { Trial } from "./report-schema.ts";

/** Maximum share of the generator's send lag in a latency. */
const MAX_LAG_SHARE = 0.1;
const MAX_LAG_MS = 1;
/** The generator is one thread. */
const MAX_GENERATOR_CORES = 0.9;
const MAX_CONNECTION_WAIT_MS = 1;
const MIN_ACHIEVED_SHARE = 0.95;
const MAX_CACHED_SHARE = 0.5;
const UNCACHED_VALUES = ["miss", "bypass"];

export function findWarnings({
  generator,
  latency,
  offeredPerSecond,
  achievedPerSecond,
  answered,
  caches,
  slo,
  scheduled,
}: Omit<Trial, "warnings">): string[] {
  const warnings: string[] = [];
  const { sendLagMs, connectionWaitMs, cores } = generator;
  const p99Ms = latency.percentiles.find(({ percentile }) => percentile === 99)?.ms ?? 0;
  if (sendLagMs.p99 > Math.max(MAX_LAG_MS, MAX_LAG_SHARE * p99Ms))
    warnings.push(
      `This machine may be the limit instead of the server: the send lag is ${formatMs(sendLagMs.p99)} (p99), and latencies include it.`,
    );
  if (cores > MAX_GENERATOR_CORES)
    warnings.push(
      `The generator used ${cores} of its one core. Lower the rate, or run several generators on different machines.`,
    );
  if (connectionWaitMs.p99 > MAX_CONNECTION_WAIT_MS)
    warnings.push(
      `Calls waited ${formatMs(connectionWaitMs.p99)} (p99) for a free connection: the server is too slow for the rate, or --connections is too low.`,
    );
  if (scheduled > 0 && achievedPerSecond < MIN_ACHIEVED_SHARE * offeredPerSecond)
    warnings.push(
      `The server did not keep up: ${formatRate(offeredPerSecond)} calls per second were offered, ${formatRate(achievedPerSecond)} were answered.`,
    );
  const cached = caches
    .filter(({ name }) => !UNCACHED_VALUES.includes(name))
    .reduce((sum, { count }) => sum + count, 0);
  if (answered > 0 && cached > MAX_CACHED_SHARE * answered)
    warnings.push(
      `${((100 * cached) / answered).toFixed(1)} % of the answers came from caches. Pass --cache bypass to measure the model.`,
    );
  if (slo?.mostOver === null)
    warnings.push(
      `${slo.samples} samples are too few to show anything about a p${slo.percentile}.`,
    );
  return warnings;
}
