// Loads in virtual time, on servers whose latencies are known.
import { describe, expect, it } from "vitest";
import type { Reply } from "../../../src/cli/load/http-sender.ts";
import { type Trial, trialSchema } from "../../../src/cli/load/report-schema.ts";
import { type LoadPlan, type LoadDependencies, runLoad } from "../../../src/cli/load/run-load.ts";
import {
  createSerialServer,
  createReply,
  createFakeSender,
  VirtualClock,
} from "../../support/virtual-clock.ts";

const PLAN: LoadPlan = {
  arrivals: "constant",
  seed: 1,
  durationMs: 10_000,
  warmUpMs: 0,
  timeoutMs: 10_000,
  connections: 256,
  objective: { ms: 50, percentile: 99 },
  rates: { kind: "fixed", ratesPerSecond: [100] },
};

interface Options extends Partial<LoadPlan>, Pick<Partial<LoadDependencies>, "signal"> {
  readonly lateMs?: number;
}

async function load(
  server: (time: VirtualClock) => () => Promise<Reply>,
  { signal = new AbortController().signal, lateMs, ...plan }: Options = {},
) {
  const time = new VirtualClock();
  const lines: string[] = [];
  const tell = (line: string) => void lines.push(line);
  const result = await runLoad(
    { ...PLAN, ...plan },
    {
      send: createFakeSender(server(time)),
      calls: [{ path: "/" }],
      log: tell,
      showProgress: tell,
      progressIntervalMs: 1_000,
      signal,
      clock: time,
      loop: { pace: time.createPace(lateMs), nowMs: time.now },
    },
  );
  return { ...result, lines };
}

const respondAfter = (ms: number) => (time: VirtualClock) => async () => {
  await time.sleepUntil(time.now() + ms);
  return createReply();
};

const first = ({ trials }: { readonly trials: readonly Trial[] }): Trial =>
  trialSchema.parse(trials[0]);
const percentileOf = ({ latency }: Trial, wanted: number) =>
  latency.percentiles.find(({ percentile }) => percentile === wanted);

describe("a server that stalls for a second", () => {
  const stalled = (time: VirtualClock) =>
    createSerialServer(time, (call) => (call === 500 ? 1_000 : 2));

  it("costs every call that was due meanwhile", async () => {
    const trial = first(await load(stalled));
    // 100 calls fall into the stall, and wait 1000, 990, 980 … ms: a closed loop would have seen one slow call of a thousand
    expect(trial).toMatchObject({ scheduled: 1_000, answered: 1_000, slo: { verdict: "missed" } });
    expect(trial.slo?.over).toBeGreaterThan(100);
    expect(percentileOf(trial, 90)?.ms).toBeGreaterThan(100);
    expect(percentileOf(trial, 99)?.ms).toBeGreaterThan(880);
    expect(percentileOf(trial, 50)?.ms).toBeCloseTo(2);
  });

  it("shows in the series where it happened", async () => {
    const { points, stepSeconds } = first(await load(stalled)).series;
    const slow = points.filter(({ p99Ms }) => (p99Ms ?? 0) > 50).map(({ atSeconds }) => atSeconds);
    expect({ firstSlow: slow[0], stepSeconds }).toEqual({ firstSlow: 5, stepSeconds: 0.2 });
    expect(
      points
        .filter(({ atSeconds }) => atSeconds > 5 && atSeconds < 5.9)
        .map(({ answered }) => answered),
    ).toEqual([0, 0, 0, 0]);
    expect(points.reduce((sum, { answered }) => sum + answered, 0)).toBe(1_000);
  });
});

describe("a trial", () => {
  it.each([
    ["constant", 1_000, 1_000],
    ["poisson", 880, 1_120],
  ] as const)("offers the requested rate with %s arrivals", async (arrivals, least, most) => {
    const { scheduled, offeredPerSecond, achievedPerSecond, generator } = first(
      await load(respondAfter(5), { arrivals }),
    );
    expect(scheduled).toBeGreaterThanOrEqual(least);
    expect(scheduled).toBeLessThanOrEqual(most);
    expect(offeredPerSecond).toBeCloseTo(scheduled / 10);
    expect(achievedPerSecond / offeredPerSecond).toBeGreaterThan(0.99);
    expect(generator.sendLagMs.max).toBe(0);
  });

  it("counts the load after its warm-up only", async () => {
    const slowAtFirst = (time: VirtualClock) => {
      let calls = 0;
      return async () => {
        await time.sleepUntil(time.now() + (calls++ < 100 ? 500 : 5));
        return createReply();
      };
    };
    const trial = first(await load(slowAtFirst, { warmUpMs: 1_000 }));
    expect(trial).toMatchObject({
      scheduled: 1_000,
      slo: { over: 0, verdict: "held" },
      latency: { maxMs: 5 },
    });
  });
});

describe("warnings of a trial", () => {
  it("report that the generator was the limit, whose lateness counts", async () => {
    const trial = first(await load(respondAfter(5), { lateMs: 20 }));
    expect(trial).toMatchObject({
      latency: { minMs: 25 },
      generator: { sendLagMs: { p50: 20 } },
      warnings: [expect.stringContaining("send lag")],
    });
  });

  it("report that the server did not keep up", async () => {
    const { achievedPerSecond, warnings } = first(
      await load((time) => createSerialServer(time, () => 20)),
    );
    expect(Math.abs(achievedPerSecond - 50)).toBeLessThan(0.5);
    expect(warnings).toEqual([expect.stringContaining("100 calls per second")]);
  });
});

describe("the course of a trial", () => {
  it("is reported each second", async () => {
    const { lines } = await load(respondAfter(5));
    expect(lines).toHaveLength(9); // the last call is due at 9.99 s
    expect(lines[4]).toBe(
      "5 of 10 s at 100/s: 100/s sent, 100/s answered, p50 5.00 ms, p99 5.00 ms, max 5.00 ms, 0 failed, 0 in flight",
    );
  });

  it("ends when the trial is aborted, with the measurements until then", async () => {
    const controller = new AbortController();
    const stopping = (time: VirtualClock) => {
      let calls = 0;
      return async () => {
        if (++calls === 500) controller.abort();
        await time.sleepUntil(time.now() + (calls >= 490 ? 5_000 : 5));
        return createReply();
      };
    };
    const trial = first(await load(stopping, { signal: controller.signal }));
    expect(trial).toMatchObject({
      scheduled: 500,
      answered: 489,
      unfinished: 11,
      offeredPerSecond: expect.closeTo(100, -1),
    });
    expect(trial.slo).toMatchObject({ over: expect.any(Number), verdict: "missed" }); // what runs for longer than the bound is over it
    expect(trial.seconds).toBeLessThan(6);
  });
});

describe("the objective", () => {
  it.each([
    [458, 0, "not shown"],
    [459, 0, "held"],
    [661, 1, "not shown"],
    [662, 1, "held"],
    [662, 7, "missed"],
  ])("of %i calls with %i slow ones is %s", async (calls, slow, verdict) => {
    const server = (time: VirtualClock) => {
      let count = 0;
      return async () => {
        await time.sleepUntil(time.now() + (count++ < slow ? 60 : 5));
        return createReply();
      };
    };
    const { slo } = first(await load(server, { durationMs: calls * 10 }));
    expect(slo).toMatchObject({ samples: calls, over: slow, verdict });
  });

  it("is missed by failures as by slowness", async () => {
    const failing = (time: VirtualClock) => {
      let calls = 0;
      return async () => {
        await time.sleepUntil(time.now() + 5);
        calls++;
        if (calls % 20 === 1) throw new DOMException("", "TimeoutError");
        if (calls % 20 === 2) throw Object.assign(new Error("gone"), { code: "ECONNRESET" });
        return calls % 20 === 3
          ? createReply(503, {}, '{"code":"overloaded","detail":"Too much."}')
          : createReply();
      };
    };
    const trial = first(await load(failing));
    expect(trial).toMatchObject({
      answered: 850,
      failed: 100,
      timedOut: 50,
      slo: { over: 150, verdict: "missed" },
      latency: { samples: 900 },
    });
    expect(trial.errors).toEqual([
      { code: "ECONNRESET", count: 50, example: "gone" },
      { code: "503 overloaded", count: 50, example: "Too much." },
    ]);
  });
});

describe("the metadata of replies", () => {
  it("is counted by tier, cache layer and phase", async () => {
    const server = (time: VirtualClock) => {
      let calls = 0;
      return async () => {
        await time.sleepUntil(time.now() + 5);
        const isRegion = ++calls % 4 === 0;
        const headers = {
          "x-edgetier-tier": isRegion ? "region" : "edge",
          "x-edgetier-cache": isRegion ? "miss" : "l1",
          "server-timing": isRegion ? "cache;dur=1, region;dur=12.5, total;dur=14" : "total;dur=2",
        };
        return createReply(200, headers, `{"outputs":[{"degraded":${calls % 10 === 0}}]}`);
      };
    };
    const trial = first(await load(server));
    expect(trial).toMatchObject({
      tiers: [
        { name: "edge", count: 750, share: 0.75 },
        { name: "region", count: 250, share: 0.25 },
      ],
      caches: [
        { name: "l1", count: 750 },
        { name: "miss", count: 250 },
      ],
      degraded: { count: 100, share: 0.1 },
      phases: [
        { phase: "total", samples: 1_000, p50Ms: 2, p99Ms: 14 },
        { phase: "cache", samples: 250 },
        { phase: "region", samples: 250, p50Ms: 12.5 },
      ],
    });
    expect(trial.warnings).toEqual([expect.stringContaining("75.0 %")]);
  });
});

describe("the search for a rate", () => {
  const search = (startRate: number) =>
    load((time) => createSerialServer(time, () => 4), {
      arrivals: "poisson",
      durationMs: 2_000,
      warmUpMs: 500,
      rates: { kind: "search", startRate, objective: { ms: 50, percentile: 99 } },
    });

  it.each([120, 400])(
    "finds how many calls a second a server of 250 holds, from %i on",
    async (startRate) => {
      const { highestRatePerSecond, trials } = await search(startRate);
      expect(highestRatePerSecond).toBeGreaterThan(190);
      expect(highestRatePerSecond).toBeLessThan(250);
      for (const { slo } of trials) expect(slo?.samples).toBeGreaterThanOrEqual(600);
      expect(
        trials.some(
          ({ ratePerSecond, slo }) =>
            ratePerSecond === highestRatePerSecond && slo?.verdict === "held",
        ),
      ).toBe(true);
    },
  );

  it("finds none where nothing holds", async () => {
    const { highestRatePerSecond } = await load(respondAfter(60), {
      rates: { kind: "search", startRate: 100, objective: { ms: 50, percentile: 99 } },
    });
    expect(highestRatePerSecond).toBeNull();
  });
});
