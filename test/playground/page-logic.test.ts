// The parts of the playground that need no browser.
import fc from "fast-check";
import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import type { ModelDetail } from "../../src/protocol/model-detail.ts";
import type { PredictResponse } from "../../src/protocol/predict.ts";
import { computeAxisScale } from "../../src/core/axis-scale.ts";
import {
  coverageOf,
  regionShareOf,
  findServedPoint,
  formatThresholds,
} from "../../src/playground/thresholds/operating-points.ts";
import { curlCommand } from "../../src/playground/predict/curl-command.ts";
import { parseServerTiming } from "../../src/playground/predict/server-timing.ts";
import { computeTierOutcomes } from "../../src/playground/predict/tier-outcomes.ts";
import { propertyRuns } from "../support/property-runs.ts";

const tier = (
  id: string,
  place: string,
  exitConfidence: number | null,
): ModelDetail["tiers"][number] => ({
  id,
  place,
  exitConfidence,
  precision: "int8",
  bytes: 1,
  temperature: 1,
  figures: {},
});
const detail = {
  tiers: [tier("small", "edge", 0.9), tier("large", "edge", 0.7), tier("region", "region", null)],
};
const output = (
  changes: Partial<PredictResponse["outputs"][number]>,
): PredictResponse["outputs"][number] => ({
  label: "yes",
  score: 0.95,
  scores: [],
  tier: "small",
  confidence: 0.95,
  degraded: false,
  ...changes,
});
const steps = (
  one: Partial<PredictResponse["outputs"][number]>,
  tiers: PredictResponse["usage"]["tiers"] = [],
  isCached = false,
) => computeTierOutcomes(detail, { outputs: [output(one)], usage: { tiers } }, isCached);
const states = (...given: Parameters<typeof steps>) =>
  steps(...given).map(({ status: state }) => state);

describe("what became of each tier", () => {
  it("is told for an exit, an escalation, a fault and a kept answer", () => {
    expect(states({})).toEqual(["answered", "not_called", "not_called"]);
    expect(
      states({ tier: "region", confidence: 0.5 }, [
        { tier: "small", inputs: 1 },
        { tier: "large", inputs: 1 },
        { tier: "region", inputs: 1 },
      ]),
    ).toEqual(["escalated", "escalated", "answered"]);
    expect(
      states({ tier: "large", degraded: true }, [
        { tier: "small", inputs: 1 },
        { tier: "large", inputs: 1 },
        { tier: "region", inputs: 1, error: "region_unavailable" },
      ]),
    ).toEqual(["escalated", "answered", "failed"]);
    expect(
      steps({ tier: "large" }, [{ tier: "region", inputs: 0, error: "deadline_too_near" }])[2]
        ?.description,
    ).toBe("left out (deadline_too_near)");
    expect(steps({}, [], true)[0]?.description).toBe("gave the answer that was kept");
    expect(steps({ confidence: 0.5 })[0]?.description).toBe(
      "answered as the last tier that was allowed",
    );
  });
});

describe("the curl command", () => {
  it("has the request's headers, and never the key", () => {
    const text = curlCommand("https://edge.test", {
      path: "/v1/models/m/predict?topK=3",
      headers: { "x-deadline-ms": "50", "content-type": "image/png" },
      body: { file: "a b.png" },
      hasKey: true,
    });
    expect(text.split(" \\\n  ")).toEqual([
      "curl 'https://edge.test/v1/models/m/predict?topK=3'",
      "-H 'x-deadline-ms: 50'",
      "-H 'content-type: image/png'",
      '-H "authorization: Bearer $EDGETIER_API_KEY"',
      "--data-binary '@a b.png'",
    ]);
  });

  it("reaches the program as it was, whatever the text has in it", () => {
    fc.assert(
      fc.property(
        fc.string().filter((text) => !text.includes("\0")),
        (text) => {
          const command = curlCommand("http://edge", {
            path: "/p",
            headers: {},
            body: { json: text },
            hasKey: false,
          }).replace(/^curl/, `printf '%s\\n'`);
          expect(spawnSync("sh", ["-c", `${command}`], { encoding: "utf8" }).stdout).toBe(
            `http://edge/p\n--json\n${text}\n`,
          );
        },
      ),
      { numRuns: propertyRuns(50), examples: [['it\'s "quoted" $HOME `id` \\ !']] },
    );
  });
});

it("reads server-timing, and nothing from what is none", () => {
  expect(parseServerTiming('cache;dur=13, region;desc="far away";dur=34.5, total;dur=x')).toEqual([
    { name: "cache", durationMs: 13 },
    { name: "region", durationMs: 34.5 },
  ]);
  expect(parseServerTiming(null)).toEqual([]);
});

describe("a report's points", () => {
  const point = (thresholds: number[], shares: number[]) => ({
    thresholds,
    shares,
    risk: 0,
    accuracy: 1,
    holds: true,
  });
  const report = {
    tiers: detail.tiers.map(({ id, place }) => ({
      id,
      place: place === "edge" ? ("edge" as const) : ("region" as const),
      digest: "",
      accuracy: 1,
      expectedCalibrationError: 0,
      bins: [],
    })),
    points: [
      point([1, 1], [0, 0, 1]),
      point([0.9, 0.7], [0.5, 0.2, 0.3]),
      point([0, 0], [1, 0, 0]),
    ],
  };

  it("have the served one among them, or the nearest", () => {
    expect(findServedPoint(report, detail)).toBe(1);
    expect(
      findServedPoint(report, {
        tiers: [
          tier("small", "edge", 0.1),
          tier("large", "edge", 0.2),
          tier("region", "region", null),
        ],
      }),
    ).toBe(2);
  });

  it("say how much goes where", () => {
    const served = report.points[1] ?? point([], []);
    expect([
      coverageOf(served),
      regionShareOf(served, report),
      formatThresholds(served, report),
    ]).toEqual([0.7, 0.3, "small 0.9000, large 0.7000"]);
    expect(formatThresholds(point([0.71], [0.9, 0.1]), report)).toBe("0.7100");
  });
});

describe("a scale", () => {
  it("has round steps", () => {
    expect(computeAxisScale(0, 1).ticks).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(computeAxisScale(-0.0028, 0.01).ticks).toEqual([-0.005, 0, 0.005, 0.01]);
    expect(computeAxisScale(-60, 0)).toEqual({ min: -60, max: 0, ticks: [-60, -40, -20, 0] });
  });

  it("holds both ends, in six ticks or fewer", () => {
    fc.assert(
      fc.property(
        fc.double({ min: -1e6, max: 1e6, noNaN: true }),
        fc.double({ min: 1e-3, max: 1e6, noNaN: true }),
        (least, span) => {
          const { min: from, max: to, ticks } = computeAxisScale(least, least + span);
          expect(from).toBeLessThanOrEqual(least + 1e-6 * span);
          expect(to).toBeGreaterThanOrEqual(least + span - 1e-6 * span);
          expect(ticks.length).toBeLessThanOrEqual(6);
          expect(ticks.length).toBeGreaterThanOrEqual(2);
        },
      ),
      { examples: [[625.4162600282176, 4374.583740971783]] },
    );
  });
});
