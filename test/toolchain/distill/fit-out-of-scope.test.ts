import { describe, expect, it } from "vitest";
import { fitOutOfScope } from "../../../src/toolchain/distill/fit-out-of-scope.ts";
import type { LabeledLogits } from "../../../src/toolchain/calibrate/logit-scaling.ts";
import { LOGITS_OUTPUT, decodePredictions } from "../../../src/cascade/calibration.ts";

const LABELS = ["yes", "no"];
const row = (logits: readonly number[], label: number): LabeledLogits => ({
  logits: Float32Array.from(logits),
  label,
});
/** In scope from sure to unsure, out of scope less sure than most of them. */
const inside = Array.from({ length: 200 }, (_, index) =>
  index % 2 === 0 ? row([3 + index / 50, 0], 0) : row([0, 3 + index / 50], 1),
);
const outside = Array.from({ length: 20 }, (_, index) => row([3 * (index / 20), 0.5], -1));

describe("fitOutOfScope", () => {
  it("costs what it may, and tells most of what is out of scope", () => {
    const outOfScope = fitOutOfScope([...inside, ...outside], 1, "oos", 2);
    const verdictOf = ({ logits }: LabeledLogits) =>
      decodePredictions(
        { [LOGITS_OUTPUT]: { datatype: "FP32", shape: [1, 2], data: logits } },
        1,
        LABELS,
        { temperature: 1, outOfScope },
        1,
      )[0]?.outOfScope;
    expect(outOfScope?.label).toBe("oos");
    const lost = inside.filter((one) => verdictOf(one) === true).length;
    expect(lost).toBeGreaterThan(0);
    expect(lost).toBeLessThanOrEqual(4);
    expect(outside.filter((one) => verdictOf(one) === true).length).toBeGreaterThanOrEqual(19);
  });

  it("takes more of what is out of scope the more it may cost", () => {
    const thresholds = [0, 1, 5, 20].map((points) =>
      fitOutOfScope(
        [
          ...inside,
          ...outside.map(({ logits }) =>
            row(
              [...logits].map((logit) => 2 * logit),
              -1,
            ),
          ),
        ],
        1,
        "oos",
        points,
      ),
    );
    const recalls = thresholds.map(
      (rule) =>
        outside.filter(
          ({ logits }) =>
            decodePredictions(
              {
                [LOGITS_OUTPUT]: {
                  datatype: "FP32",
                  shape: [1, 2],
                  data: logits.map((logit) => 2 * logit),
                },
              },
              1,
              LABELS,
              { temperature: 1, outOfScope: rule },
              1,
            )[0]?.outOfScope,
        ).length,
    );
    expect(recalls).toEqual(recalls.toSorted((a, b) => a - b));
    expect(recalls.at(-1)).toBeGreaterThan(recalls[0] ?? 0);
  });

  it("is none where nothing shows it", () => {
    expect(fitOutOfScope(inside, 1, "oos")).toBeUndefined();
    expect(fitOutOfScope(outside, 1, "oos")).toBeUndefined();
  });
});
