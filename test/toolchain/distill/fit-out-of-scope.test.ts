import { describe, expect, it } from "vitest";
import { LOGITS_OUTPUT, decodePredictions } from "../../../src/cascade/calibration.ts";
import type { LabeledLogits } from "../../../src/toolchain/calibrate/logit-scaling.ts";
import { fitOutOfScope } from "../../../src/toolchain/distill/fit-out-of-scope.ts";

const LABELS = ["yes", "no"];
const row = (logits: readonly number[], label: number): LabeledLogits => ({
  logits: Float32Array.from(logits),
  label,
});
/**
 * In-scope samples from unsure to sure, and out-of-scope samples that are less sure than most of
 * them.
 */
const inScope = Array.from({ length: 200 }, (_, index) =>
  index % 2 === 0 ? row([3 + index / 50, 0], 0) : row([0, 3 + index / 50], 1),
);
const outOfScope = Array.from({ length: 20 }, (_, index) => row([3 * (index / 20), 0.5], -1));

/** Counts the samples that the rule detects as out of scope. */
const countDetected = (
  samples: readonly LabeledLogits[],
  rule: ReturnType<typeof fitOutOfScope>,
): number =>
  samples.filter(({ logits }) => {
    const outputs = { [LOGITS_OUTPUT]: { datatype: "FP32", shape: [1, 2], data: logits } } as const;
    const calibration = { temperature: 1, outOfScope: rule };
    return decodePredictions(outputs, 1, LABELS, calibration, 1)[0]?.outOfScope === true;
  }).length;

describe("fitOutOfScope", () => {
  it("detects most out-of-scope samples within the allowed loss", () => {
    const rule = fitOutOfScope([...inScope, ...outOfScope], 1, "oos", 2);
    expect(rule?.label).toBe("oos");
    const lost = countDetected(inScope, rule);
    expect(lost).toBeGreaterThan(0);
    expect(lost).toBeLessThanOrEqual(4);
    expect(countDetected(outOfScope, rule)).toBeGreaterThanOrEqual(19);
  });

  it("detects more out-of-scope samples with a larger allowed loss", () => {
    const surerOutOfScope = outOfScope.map(({ logits }) =>
      row(
        [...logits].map((logit) => 2 * logit),
        -1,
      ),
    );
    const detected = [0, 1, 5, 20].map((maxLossPoints) => {
      const rule = fitOutOfScope([...inScope, ...surerOutOfScope], 1, "oos", maxLossPoints);
      return countDetected(surerOutOfScope, rule);
    });
    expect(detected).toEqual(detected.toSorted((a, b) => a - b));
    expect(detected.at(-1)).toBeGreaterThan(detected[0] ?? 0);
  });

  it("returns no rule unless there are in-scope and out-of-scope samples", () => {
    expect(fitOutOfScope(inScope, 1, "oos")).toBeUndefined();
    expect(fitOutOfScope(outOfScope, 1, "oos")).toBeUndefined();
  });
});
