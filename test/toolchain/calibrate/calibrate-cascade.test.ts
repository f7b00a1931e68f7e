import { describe, expect, it } from "vitest";
import { calibrateCascade } from "../../../src/toolchain/calibrate/calibrate-cascade.ts";
import { computeCalibrationCurves } from "../../../src/toolchain/calibrate/calibration-curves.ts";
import {
  fitCalibration,
  CALIBRATION_METHODS,
  calibrationMethodOf,
  crossValidateMethods,
} from "../../../src/toolchain/calibrate/fit-calibration.ts";
import { validateRiskBound } from "../../../src/toolchain/calibrate/validate-risk-bound.ts";
import { renderCalibrationReport } from "../../../src/toolchain/report/calibration-report.ts";
import { LABELS, createSyntheticCascade } from "./synthetic-cascade.ts";

const options = {
  what: "disagreement",
  epsilon: 0.1,
  delta: 0.1,
  deadlineMs: 1_000,
  method: "temperature",
} as const;

/** Relative tolerance of a temperature fitted on 600 samples. */
const TEMPERATURE_TOLERANCE = 0.2;

describe("calibrateCascade", () => {
  const { tiers, labeled } = createSyntheticCascade(2_000, [12, 25, 60]);

  it("fits on one part of the samples, tests on the other, and reports the guarantee", () => {
    const {
      split,
      risk,
      thresholds,
      tiers: calibrated,
    } = calibrateCascade(tiers, labeled, options);
    expect(split).toMatchObject({ fit: { length: 600 }, test: { length: 1_400 } });
    expect(new Set([...split.fit, ...split.test]).size).toBe(2_000);
    expect(risk).toMatchObject({
      what: "disagreement",
      epsilon: 0.1,
      delta: 0.1,
      samples: 1_400,
      method: expect.stringContaining("learn-then-test"),
    });
    expect(risk?.empiricalRisk).toBeLessThan(0.1);
    expect(thresholds).toHaveLength(2);
    for (const threshold of thresholds) {
      expect(threshold).toBeGreaterThan(0);
      expect(threshold).toBeLessThanOrEqual(1);
    }
    // The synthetic logits have a temperature of 2.
    for (const { calibration } of calibrated)
      expect(Math.abs(calibration.temperature / 2 - 1)).toBeLessThan(TEMPERATURE_TOLERANCE);
  });

  it("depends only on the seed", () => {
    const calibrateWithSeed = (seed: number) =>
      calibrateCascade(tiers, labeled, { ...options, seed });
    expect(calibrateWithSeed(3)).toEqual(calibrateWithSeed(3));
    expect(calibrateWithSeed(4).split.test).not.toEqual(calibrateWithSeed(3).split.test);
  });

  it("keeps the loss of accuracy within its bound for the risk `accuracy`", () => {
    const { risk, riskControl } = calibrateCascade(tiers, labeled, {
      ...options,
      what: "accuracy",
      epsilon: 0.05,
    });
    expect(risk?.what).toBe("accuracy");
    expect(risk?.empiricalRisk).toBeLessThan(0.05);
    expect(riskControl.chosen?.pValue).toBeLessThanOrEqual(0.1);
  });
});

describe("exits of a cascade", () => {
  const { tiers, labeled } = createSyntheticCascade(2_000, [12, 25, 60]);

  it("have lower thresholds for a larger risk while the next tier is saturated", () => {
    const { thresholds, whenSaturated } = calibrateCascade(tiers, labeled, {
      ...options,
      saturatedEpsilon: 0.2,
    });
    expect(whenSaturated?.epsilon).toBe(0.2);
    const lower = (whenSaturated?.thresholds ?? []).map(
      (confidence, position) => (thresholds[position] ?? 0) - confidence,
    );
    expect(lower).toHaveLength(thresholds.length);
    expect(Math.min(...lower)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...lower)).toBeGreaterThan(0);
  });

  it("calibrates a single tier without exit and risk", () => {
    const calibrated = calibrateCascade(tiers.slice(0, 1), labeled, options);
    expect(calibrated).toMatchObject({ thresholds: [], tiers: { length: 1 } });
    expect(calibrated.risk).toBeUndefined();
  });
});

describe("an unattainable bound", () => {
  const { tiers, labeled } = createSyntheticCascade(2_000, [12, 25, 60]);

  it("is rejected with what would suffice, unless the last tier may answer everything", () => {
    const { tiers: few, labeled: fewLabeled } = createSyntheticCascade(100, [12, 60]);
    const bound = { ...options, epsilon: 0.01 };
    expect(() => calibrateCascade(few, fewLabeled, bound)).toThrow(
      expect.objectContaining({
        code: "risk_not_reached",
        remedy: expect.stringMatching(/\b329\b.*\b0\.\d+\b/),
      }),
    );
    const { thresholds, risk } = calibrateCascade(few, fewLabeled, {
      ...bound,
      allowLastTierOnly: true,
    });
    expect(thresholds).toEqual([1]);
    expect(risk).toMatchObject({ empiricalRisk: 0, method: "last tier only" });
  });

  it("names the deadline if no exits meet it", () => {
    expect(() => calibrateCascade(tiers, labeled, { ...options, deadlineMs: 1 })).toThrow(
      expect.objectContaining({
        code: "risk_not_reached",
        detail: expect.stringMatching(/\bdeadline\b.*\b1 ms\b/),
      }),
    );
  });
});

describe("fitCalibration", () => {
  const { tiers, labeled } = createSyntheticCascade(600, [12]);
  const samples = (tiers[0]?.outputs ?? []).map((outputs, index) => ({
    outputs,
    truth: labeled.groundTruth[index] ?? "",
  }));
  const outOfScope = { label: "oos", score: { kind: "energy" }, threshold: 1, scale: 2 } as const;

  it.each(CALIBRATION_METHODS)(
    "identifies the method %s, and keeps the out-of-scope rule with its temperature",
    (method) => {
      const calibration = fitCalibration(method, { temperature: 1.7, outOfScope }, samples, LABELS);
      expect(calibrationMethodOf(calibration)).toBe(method);
      expect(calibration.outOfScope).toEqual({ ...outOfScope, temperature: 1.7 });
      expect(fitCalibration(method, calibration, samples, LABELS).outOfScope).toEqual(
        calibration.outOfScope,
      );
    },
  );

  it("selects the simplest method that is as good as the best in cross-validation", () => {
    const { chosen, trials } = crossValidateMethods({ temperature: 1 }, samples, LABELS);
    expect(chosen).toBe("temperature"); // The samples differ from calibrated ones by a temperature.
    expect(trials.map(({ method }) => method)).toEqual([...CALIBRATION_METHODS]);
    for (const { nll, expectedCalibrationError } of trials) {
      expect(nll).toBeGreaterThan(0);
      expect(nll).toBeLessThan(1);
      expect(expectedCalibrationError).toBeLessThan(0.2);
    }
  });

  it("selects isotonic regression if a temperature cannot help", () => {
    // Half of the answers have a confidence and an accuracy of 0.99. The others have 0.6 and 0.05,
    // which is less than chance.
    const miscalibrated = Array.from({ length: 1_200 }, (_, index) => {
      const [logit, isCorrect] =
        index % 2 === 0
          ? [Math.log(99 * 2), index % 200 !== 0]
          : [Math.log(1.5 * 2), index % 40 === 1];
      const answer = Math.floor(index / 2) % 3;
      const truth = isCorrect ? answer : (answer + 1 + (Math.floor(index / 6) % 2)) % 3;
      return {
        outputs: {
          logits: {
            datatype: "FP32",
            shape: [1, 3],
            data: Float32Array.from(LABELS, (_, label) => (label === answer ? logit : 0)),
          },
        } as const,
        truth: LABELS[truth] ?? "",
      };
    });
    expect(crossValidateMethods({ temperature: 1 }, miscalibrated, LABELS).chosen).toBe("isotonic");
  });
});

describe("validateRiskBound", () => {
  it("finds that the bound holds at least as often as guaranteed, with exits that use it fully", () => {
    const { tiers, labeled } = createSyntheticCascade(800, [12, 60]);
    const { halves, draws } = validateRiskBound(tiers, labeled, { ...options, splits: 30 });
    expect({ halves, draws }).toMatchObject({
      halves: { splits: 30 },
      draws: { splits: 30, unreached: 0 },
    });
    expect(draws.heldShare).toBeGreaterThanOrEqual(0.9);
    expect(draws.meanRisk).toBeGreaterThan(0.05); // Otherwise the bound would hold only because nothing exits early.
    expect(halves.heldShare).toBeGreaterThan(0.7);
    expect(halves.meanEarlyShare).toBeGreaterThan(0.2);
    expect(halves.largestRisk).toBeGreaterThanOrEqual(halves.p95Risk);
  }, 60_000);
});

describe("computeCalibrationCurves", () => {
  const { tiers, labeled } = createSyntheticCascade(1_000, [12, 60]);
  const cascade = calibrateCascade(tiers, labeled, options);
  const curves = computeCalibrationCurves(tiers, cascade, labeled, undefined, options);

  it("contains the reliability before and after, and the cascade from no exits to all exits", () => {
    const [first] = curves.reliability;
    expect(first?.after.expectedCalibrationError).toBeLessThan(
      first?.before.expectedCalibrationError ?? 0,
    );
    expect(first?.after.bins.reduce((sum, { samples }) => sum + samples, 0)).toBe(700);
    const coverages = curves.cascade.map(({ coverage }) => coverage);
    expect(coverages[0]).toBe(0);
    expect(coverages.at(-1)).toBe(1);
    expect(coverages).toEqual(coverages.toSorted((a, b) => a - b));
    expect(curves.chosen?.risk).toBeCloseTo(cascade.risk?.empiricalRisk ?? 1, 5);
    expect(curves.alone.map(({ tier }) => tier)).toEqual(["tier-0", "tier-1"]);
  });

  it("renders as one page without scripts, each plot with a title and a description", () => {
    const page = renderCalibrationReport({
      model: "a<b",
      risk: cascade.risk,
      tiers: [
        { id: "tier-0", method: "temperature", exit: cascade.thresholds[0] },
        { id: "tier-1", method: "temperature", exit: undefined },
      ],
      curves,
    });
    expect(page).not.toMatch(/<script|https?:|url\(|@import|NaN|undefined/);
    expect(page).toContain("a&#60;b: calibration");
    const plots = page.match(/<svg .*?<\/svg>/gs) ?? [];
    expect(plots).toHaveLength(4);
    for (const plot of plots)
      expect(plot).toMatch(
        /role="img" aria-labelledby="(\S+)-title \1-desc"><title id="\1-title">[^<]+<\/title><desc id="\1-desc">[^<]+<\/desc>/,
      );
    expect(page).toContain("prefers-color-scheme: dark");
  });
});
