// Fixture of the region pool tests: a pool over scripted regions, on a manual clock.
import { ManualClock } from "../../../src/core/clock.ts";
import {
  createRegionPool,
  type RegionEvent,
  type RegionPoolOptions,
} from "../../../src/region/client/region-pool.ts";
import {
  type ScriptedBehavior,
  advanceUntilSettled,
  respondingRegionOf,
  createRegionRequest,
  type ScriptedRegion,
  createScriptedRegion,
} from "./scripted-region.ts";

export const frankfurt = { latitudeDegrees: 50.11, longitudeDegrees: 8.68 };
export const virginia = { latitudeDegrees: 38.95, longitudeDegrees: -77.45 };

/**
 * Creates a pool whose callers are in Frankfurt.
 * @param latenciesMs of the regions a, b and c; a region of 100 ms or more is in Virginia, others are in Frankfurt
 */
export function createPoolFixture(
  latenciesMs: readonly number[],
  options: Partial<RegionPoolOptions> = {},
) {
  const clock = new ManualClock(1_000_000);
  const regions = latenciesMs.map((latencyMs, index) =>
    createScriptedRegion(clock, "abc"[index] ?? "", latencyMs, {
      location: latencyMs < 100 ? frankfurt : virginia,
    }),
  );
  const [a, b] = regions as [ScriptedRegion, ScriptedRegion];
  const events: RegionEvent[] = [];
  let state = 7;
  const random = () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
  const pool = createRegionPool(regions, {
    clock,
    random,
    onEvent: (event) => events.push(event),
    ...options,
  });
  const infer = async (
    more: Parameters<typeof createRegionRequest>[0] = {},
    signal?: AbortSignal,
  ) =>
    await advanceUntilSettled(
      clock,
      pool.infer(createRegionRequest({ clientLocation: frankfurt, ...more }), signal),
    );
  /** Calls the pool `times` times; returns the responding region of each call, or its error code. */
  const inferTimes = async (
    times: number,
    more: Parameters<typeof createRegionRequest>[0] = {},
  ) => {
    const origins: string[] = [];
    for (let call = 0; call < times; call++) {
      const result = await infer(more);
      origins.push(
        result.status === "fulfilled" ? respondingRegionOf(result.value) : result.reason.code,
      );
    }
    return origins;
  };
  const extras = () =>
    events.flatMap((event) =>
      event.kind === "extra_call" ? [`${event.reason} ${event.result}`] : [],
    );
  const circuits = () =>
    events.flatMap((event) => (event.kind === "circuit" ? [`${event.region} ${event.state}`] : []));
  return { clock, regions, a, b, pool, events, infer, inferTimes, extras, circuits };
}

export const countOccurrences = (items: readonly string[]) =>
  Object.fromEntries(
    [...Map.groupBy(items, (item) => item)].map(([item, all]) => [item, all.length]),
  );
export const always = (behavior: ScriptedBehavior) => () => behavior;
export const forwardedRequest = {
  model: "mood",
  version: 1,
  requestId: "r",
  timeoutMs: 1_000,
  clientLocation: frankfurt,
  body: new Uint8Array(3),
  headers: {},
};
