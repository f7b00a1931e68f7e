// What a reader of a trial's figures has to know: that the generator, its connections or its inputs made them.

import { shownMs, shownRate } from "./progress.ts";
import type { Trial } from "./report-schema.ts";

/** Of a latency: so large a part of it may be the generator's own. */
const MAX_LAG_SHARE = 0.1;
const MAX_LAG_MS = 1;
/** The generator is one thread. */
const BUSY_CORES = 0.9;
const WAITED_MS = 1;
const KEPT_UP_SHARE = 0.95;
const MANY_CACHED_SHARE = 0.5;
const COMPUTED = ["miss", "bypass"];

export function warningsOf({
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
      `This machine, not the server, may be the limit: calls were sent ${shownMs(sendLagMs.p99)} late (p99), which is part of every latency.`,
    );
  if (cores > BUSY_CORES)
    warnings.push(
      `The generator took ${cores} of the one core that it can use: ask for a lower rate, or run several on different machines.`,
    );
  if (connectionWaitMs.p99 > WAITED_MS)
    warnings.push(
      `Calls waited for a free connection, ${shownMs(connectionWaitMs.p99)} (p99): the server is slower than the rate, or --connections too few.`,
    );
  if (scheduled > 0 && achievedPerSecond < KEPT_UP_SHARE * offeredPerSecond)
    warnings.push(
      `The server did not keep up: ${shownRate(offeredPerSecond)} calls a second were offered, ${shownRate(achievedPerSecond)} answered.`,
    );
  const cached = caches
    .filter(({ name }) => !COMPUTED.includes(name))
    .reduce((sum, { count }) => sum + count, 0);
  if (answered > 0 && cached > MANY_CACHED_SHARE * answered)
    warnings.push(
      `${((100 * cached) / answered).toFixed(1)} % of the answers came from caches: --cache bypass measures the model.`,
    );
  if (slo?.mostOver === null)
    warnings.push(`${slo.samples} samples are too few to say anything about a p${slo.percentile}.`);
  return warnings;
}
