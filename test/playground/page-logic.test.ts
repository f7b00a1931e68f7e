import { spawnSync } from "node:child_process";
// Playground logic without a browser: tier outcomes, curl commands, server timing, operating points and axis scales.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { computeAxisScale } from "../../src/core/axis-scale.ts";
import { curlCommand } from "../../src/playground/predict/curl-command.ts";
import { parseServerTiming } from "../../src/playground/predict/server-timing.ts";
import { computeTierOutcomes } from "../../src/playground/predict/tier-outcomes.ts";
import {
  coverageOf,
  regionShareOf,
  findServedPoint,
  formatThresholds,
} from "../../src/playground/thresholds/operating-points.ts";
import type { ModelDetail } from "../../src/protocol/model-detail.ts";
import type { PredictResponse } from "../../src/protocol/predict.ts";
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
const outcomes = (
  changes: Partial<PredictResponse["outputs"][number]>,
  tiers: PredictResponse["usage"]["tiers"] = [],
  isCached = false,
) => computeTierOutcomes(detail, { outputs: [output(changes)], usage: { tiers } }, isCached);
const statuses = (...input: Parameters<typeof outcomes>) =>
  outcomes(...input).map(({ status }) => status);

describe("the outcome of a tier", () => {
  it("has a status for exits, escalations and faults", () => {
    expect(statuses({})).toEqual(["answered", "not_called", "not_called"]);
    expect(
      statuses({ tier: "region", confidence: 0.5 }, [
        { tier: "small", inputs: 1 },
        { tier: "large", inputs: 1 },
        { tier: "region", inputs: 1 },
      ]),
    ).toEqual(["escalated", "escalated", "answered"]);
    expect(
      statuses({ tier: "large", degraded: true }, [
        { tier: "small", inputs: 1 },
        { tier: "large", inputs: 1 },
        { tier: "region", inputs: 1, error: "region_unavailable" },
      ]),
    ).toEqual(["escalated", "answered", "failed"]);
  });

  it("has a different description for each cause", () => {
    const skipped = outcomes({ tier: "large" }, [
      { tier: "region", inputs: 0, error: "deadline_too_near" },
    ])[2];
    const failed = outcomes({ tier: "large" }, [
      { tier: "region", inputs: 1, error: "deadline_too_near" },
    ])[2];
    expect(skipped).toMatchObject({
      status: "failed",
      description: expect.stringContaining("deadline_too_near"),
    });
    const exited = outcomes({})[0];
    const cached = outcomes({}, [], true)[0];
    const lastAllowed = outcomes({ confidence: 0.5 })[0];
    const degraded = outcomes({ degraded: true })[0];
    const descriptions = [skipped, failed, exited, cached, lastAllowed, degraded].map(
      (outcome) => outcome?.description,
    );
    expect(new Set(descriptions).size).toBe(descriptions.length);
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

  it("passes any text to the program unchanged", () => {
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

it("parses server-timing, and ignores invalid entries", () => {
  expect(parseServerTiming('cache;dur=13, region;desc="far away";dur=34.5, total;dur=x')).toEqual([
    { name: "cache", durationMs: 13 },
    { name: "region", durationMs: 34.5 },
  ]);
  expect(parseServerTiming(null)).toEqual([]);
});

describe("operating points", () => {
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

  it("include the served one, or the nearest to it", () => {
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

  it("have coverage, region share and thresholds", () => {
    const served = report.points[1] ?? point([], []);
    expect({
      coverage: coverageOf(served),
      regionShare: regionShareOf(served, report),
      thresholds: formatThresholds(served, report),
    }).toEqual({ coverage: 0.7, regionShare: 0.3, thresholds: "small 0.9000, large 0.7000" });
    expect(formatThresholds(point([0.71], [0.9, 0.1]), report)).toBe("0.7100");
  });
});

describe("an axis scale", () => {
  it("has round steps", () => {
    expect(computeAxisScale(0, 1).ticks).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(computeAxisScale(-0.0028, 0.01).ticks).toEqual([-0.005, 0, 0.005, 0.01]);
    expect(computeAxisScale(-60, 0)).toEqual({ min: -60, max: 0, ticks: [-60, -40, -20, 0] });
  });

  it("contains both ends, with two to six ticks", () => {
    fc.assert(
      fc.property(
        fc.double({ min: -1e6, max: 1e6, noNaN: true }),
        fc.double({ min: 1e-3, max: 1e6, noNaN: true }),
        (start, span) => {
          const { min, max, ticks } = computeAxisScale(start, start + span);
          expect(min).toBeLessThanOrEqual(start + 1e-6 * span);
          expect(max).toBeGreaterThanOrEqual(start + span - 1e-6 * span);
          expect(ticks.length).toBeLessThanOrEqual(6);
          expect(ticks.length).toBeGreaterThanOrEqual(2);
        },
      ),
      { examples: [[625.4162600282176, 4374.583740971783]] },
    );
  });
});
