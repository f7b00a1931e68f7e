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

describe("calibrateCascade", () => {
  const { tiers, labelled } = createSyntheticCascade(2_000, [12, 25, 60]);

  it("fits to one part, tests on the other, and says for what", () => {
    const {
      split: parts,
      risk,
      thresholds,
      tiers: calibrated,
    } = calibrateCascade(tiers, labelled, options);
    expect([parts.fit.length, parts.test.length]).toEqual([600, 1_400]);
    expect(new Set([...parts.fit, ...parts.test]).size).toBe(2_000);
    expect(risk).toMatchObject({
      what: "disagreement",
      epsilon: 0.1,
      delta: 0.1,
      samples: 1_400,
      method: expect.stringContaining("learn-then-test"),
    });
    expect(risk?.empiricalRisk).toBeLessThan(0.1);
    expect(thresholds).toHaveLength(2);
    expect(thresholds.every((one) => one > 0 && one <= 1)).toBe(true);
    expect(calibrated.map(({ calibration }) => calibration.temperature / 2)).toEqual(
      [1, 1, 1].map(() => expect.closeTo(1, 0)),
    ); // twice as sure as it should be
  });

  it("is the same for the same seed, and another for another", () => {
    const of = (seed: number) => calibrateCascade(tiers, labelled, { ...options, seed });
    expect(of(3)).toEqual(of(3));
    expect(of(4).split.test).not.toEqual(of(3).split.test);
  });

  it("loses accuracy within its bound, where that is what is stated", () => {
    const { risk, riskControl: control } = calibrateCascade(tiers, labelled, {
      ...options,
      what: "accuracy",
      epsilon: 0.05,
    });
    expect(risk?.what).toBe("accuracy");
    expect(risk?.empiricalRisk).toBeLessThan(0.05);
    expect(control.chosen?.pValue).toBeLessThanOrEqual(0.1);
  });

  it("tells how a bound could be reached that these samples cannot give, and sends all to the last tier only if asked", () => {
    const { tiers: few, labelled: ofFew } = createSyntheticCascade(100, [12, 60]);
    const bound = { ...options, epsilon: 0.01 };
    expect(() => calibrateCascade(few, ofFew, bound)).toThrow(
      expect.objectContaining({
        code: "risk_not_reached",
        remedy: expect.stringMatching(/Give 329 samples .* epsilon of 0\.\d+ or more/),
      }),
    );
    const { thresholds, risk } = calibrateCascade(few, ofFew, {
      ...bound,
      allowLastTierOnly: true,
    });
    expect(thresholds).toEqual([1]);
    expect(risk).toMatchObject({ empiricalRisk: 0, method: "last tier only" });
  });

  it("lets more exit for a larger risk while the next tier is saturated, and tells which", () => {
    const { thresholds, whenSaturated } = calibrateCascade(tiers, labelled, {
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

  it("names the deadline where no exits hold it", () => {
    expect(() => calibrateCascade(tiers, labelled, { ...options, deadlineMs: 1 })).toThrow(
      expect.objectContaining({ detail: expect.stringContaining("deadline of 1 ms") }),
    );
  });

  it("calibrates a single tier, which has neither exit nor risk", () => {
    const {
      thresholds,
      risk,
      tiers: calibrated,
    } = calibrateCascade(tiers.slice(0, 1), labelled, options);
    expect([thresholds, risk, calibrated.length]).toEqual([[], undefined, 1]);
  });
});

describe("fitCalibration", () => {
  const { tiers, labelled } = createSyntheticCascade(600, [12]);
  const samples = (tiers[0]?.outputs ?? []).map((outputs, index) => ({
    outputs,
    truth: labelled.groundTruth[index] ?? "",
  }));
  const outOfScope = { label: "oos", score: { kind: "energy" }, threshold: 1, scale: 2 } as const;

  it.each(CALIBRATION_METHODS)(
    "by %s tells its method, and keeps the out-of-scope rule at the temperature that it was made with",
    (method) => {
      const calibration = fitCalibration(method, { temperature: 1.7, outOfScope }, samples, LABELS);
      expect(calibrationMethodOf(calibration)).toBe(method);
      expect(calibration.outOfScope).toEqual({ ...outOfScope, temperature: 1.7 });
      expect(fitCalibration(method, calibration, samples, LABELS).outOfScope).toEqual(
        calibration.outOfScope,
      );
    },
  );

  it("takes the simplest method that is as good as the best in cross-validation", () => {
    const { chosen, trials } = crossValidateMethods({ temperature: 1 }, samples, LABELS);
    expect(chosen).toBe("temperature"); // by which the samples were made
    expect(trials.map(({ method }) => method)).toEqual([...CALIBRATION_METHODS]);
    expect(
      trials.every(
        ({ nll, expectedCalibrationError }) => nll > 0 && nll < 1 && expectedCalibrationError < 0.2,
      ),
    ).toBe(true);
  });

  it("takes isotonic regression where a temperature cannot help", () => {
    // Sure by 0.99 and right in 0.99 of the cases, sure by 0.6 and right in 0.05 of them: less often than by chance.
    const made = Array.from({ length: 1_200 }, (_, index) => {
      const [logit, isRight] =
        index % 2 === 0
          ? [Math.log(99 * 2), index % 200 !== 0]
          : [Math.log(1.5 * 2), index % 40 === 1];
      const answered = Math.floor(index / 2) % 3;
      const truth = isRight ? answered : (answered + 1 + (Math.floor(index / 6) % 2)) % 3;
      return {
        outputs: {
          logits: {
            datatype: "FP32",
            shape: [1, 3],
            data: Float32Array.from(LABELS, (_, label) => (label === answered ? logit : 0)),
          },
        } as const,
        truth: LABELS[truth] ?? "",
      };
    });
    expect(crossValidateMethods({ temperature: 1 }, made, LABELS).chosen).toBe("isotonic");
  });
});

describe("validateRiskBound", () => {
  it("finds that the bound holds as often as it is promised, where it is used to the full", () => {
    const { tiers, labelled } = createSyntheticCascade(800, [12, 60]);
    const { halves, draws } = validateRiskBound(tiers, labelled, { ...options, splits: 30 });
    expect([halves.splits, draws.splits, draws.unreached]).toEqual([30, 30, 0]);
    expect(draws.heldShare).toBeGreaterThanOrEqual(0.9);
    expect(draws.meanRisk).toBeGreaterThan(0.05); // else the bound held because nothing exited
    expect(halves.heldShare).toBeGreaterThan(0.7);
    expect(halves.meanEarlyShare).toBeGreaterThan(0.2);
    expect(halves.largestRisk).toBeGreaterThanOrEqual(halves.p95Risk);
  }, 60_000);
});

describe("computeCalibrationCurves", () => {
  const { tiers, labelled } = createSyntheticCascade(1_000, [12, 60]);
  const cascade = calibrateCascade(tiers, labelled, options);
  const curves = computeCalibrationCurves(tiers, cascade, labelled, undefined, options);

  it("have the reliability before and after, and the cascade from nothing to everything answered early", () => {
    const [first] = curves.reliability;
    expect(first?.after.expectedCalibrationError).toBeLessThan(
      first?.before.expectedCalibrationError ?? 0,
    );
    expect(first?.after.bins.reduce((sum, { samples }) => sum + samples, 0)).toBe(700);
    const coverages = curves.cascade.map(({ coverage }) => coverage);
    expect([coverages[0], coverages.at(-1)]).toEqual([0, 1]);
    expect(coverages).toEqual(coverages.toSorted((a, b) => a - b));
    expect(curves.chosen?.risk).toBeCloseTo(cascade.risk?.empiricalRisk ?? 1, 5);
    expect(curves.alone.map(({ tier }) => tier)).toEqual(["tier-0", "tier-1"]);
  });

  it("are drawn as one page without scripts, each plot with a title and a description", () => {
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
