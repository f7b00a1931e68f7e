// What a reader of a trial's figures has to know: that the generator, its connections or its inputs made them.

import { formatMs, formatRate } from "./progress.ts";
import type { Trial } from "./report-schema.ts";

/** Of a latency: so large a part of it may be the generator's own. */
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
      `This machine, not the server, may be the limit: calls were sent ${formatMs(sendLagMs.p99)} late (p99), which is part of every latency.`,
    );
  if (cores > MAX_GENERATOR_CORES)
    warnings.push(
      `The generator took ${cores} of the one core that it can use: ask for a lower rate, or run several on different machines.`,
    );
  if (connectionWaitMs.p99 > MAX_CONNECTION_WAIT_MS)
    warnings.push(
      `Calls waited for a free connection, ${formatMs(connectionWaitMs.p99)} (p99): the server is slower than the rate, or --connections too few.`,
    );
  if (scheduled > 0 && achievedPerSecond < MIN_ACHIEVED_SHARE * offeredPerSecond)
    warnings.push(
      `The server did not keep up: ${formatRate(offeredPerSecond)} calls a second were offered, ${formatRate(achievedPerSecond)} answered.`,
    );
  const cached = caches
    .filter(({ name }) => !UNCACHED_VALUES.includes(name))
    .reduce((sum, { count }) => sum + count, 0);
  if (answered > 0 && cached > MAX_CACHED_SHARE * answered)
    warnings.push(
      `${((100 * cached) / answered).toFixed(1)} % of the answers came from caches: --cache bypass measures the model.`,
    );
  if (slo?.mostOver === null)
    warnings.push(`${slo.samples} samples are too few to say anything about a p${slo.percentile}.`);
  return warnings;
}
