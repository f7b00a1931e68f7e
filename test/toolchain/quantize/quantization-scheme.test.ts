// Tests scales and zero points, and the quantization of weights.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  integerLimits,
  computeQuantizationParams,
  type QuantizationScheme,
  quantizeValue,
  includeZero,
} from "../../../src/toolchain/quantize/quantization-scheme.ts";
import { quantizeWeights } from "../../../src/toolchain/quantize/quantize-weights.ts";

const anyScheme: fc.Arbitrary<QuantizationScheme> = fc.record({
  type: fc.constantFrom("int8" as const, "uint8" as const),
  symmetric: fc.boolean(),
  reduceRange: fc.boolean(),
});
const anyNumber = fc.float({ min: -1000, max: 1000, noNaN: true });

describe("quantization parameters", () => {
  it.each<[QuantizationScheme, number, number, number, number]>([
    [{ type: "uint8", symmetric: false }, 0, 5.1, 0.02, 0],
    [{ type: "uint8", symmetric: false }, -1, 1.55, 0.01, 100],
    [{ type: "uint8", symmetric: true }, -1, 12.7, 0.1, 128],
    [{ type: "int8", symmetric: false }, 0, 5.1, 0.02, -128],
    [{ type: "int8", symmetric: true }, -12.7, 3, 0.1, 0],
    [{ type: "int8", symmetric: true, reduceRange: true }, -6.3, 3, 0.1, 0],
    [{ type: "uint8", symmetric: false, reduceRange: true }, -1, 0.27, 0.01, 100],
    // The range is extended to 0.
    [{ type: "uint8", symmetric: false }, 2, 5.1, 0.02, 0],
    [{ type: "uint8", symmetric: false }, 0, 0, 1 / 255, 0],
  ])(
    "for %j and the range %d to %d have the scale %d and the zero point %i",
    (scheme, low, high, scale, zeroPoint) => {
      expect(computeQuantizationParams({ low, high }, scheme)).toEqual({
        type: scheme.type,
        scale: Math.fround(scale),
        zeroPoint,
      });
    },
  );

  it("represent every number of the range within half a step, and 0 exactly", () => {
    fc.assert(
      fc.property(
        anyScheme,
        anyNumber,
        anyNumber,
        fc.double({ min: 0, max: 1, noNaN: true }),
        (scheme, first, second, share) => {
          const range = includeZero({
            low: Math.min(first, second),
            high: Math.max(first, second),
          });
          const params = computeQuantizationParams(range, scheme);
          const { lowest, highest } = integerLimits(scheme);
          const roundTrip = (value: number) =>
            params.scale *
            (quantizeValue(value, params.scale, params.zeroPoint, lowest, highest) -
              params.zeroPoint);
          const value = range.low + share * (range.high - range.low);
          expect(Math.abs(roundTrip(value) - value)).toBeLessThanOrEqual(
            params.scale / 2 + 1e-5 * Math.abs(value),
          );
          expect(Math.abs(roundTrip(0))).toBe(0);
        },
      ),
      { seed: 1 },
    );
  });
});

const anyWeights = fc
  .tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 9 }))
  .chain(([rows, columns]) =>
    fc.record({
      dims: fc.constant([rows, columns]),
      values: fc
        .array(anyNumber, { minLength: rows * columns, maxLength: rows * columns })
        .map((values) => Float32Array.from(values)),
    }),
  );

describe("quantized weights", () => {
  it("are integers in the scale of their channel", () => {
    const rows = quantizeWeights(
      { values: Float32Array.of(1.27, -0.5, 0, -0.127, 0.05, 0), dims: [2, 3] },
      0,
      { type: "int8", symmetric: true },
    );
    expect({
      data: [...rows.data],
      scales: [...rows.scales],
      zeroPoints: [...rows.zeroPoints],
    }).toEqual({
      data: [127, -50, 0, -127, 50, 0],
      scales: [Math.fround(0.01), Math.fround(0.001)],
      zeroPoints: [0, 0],
    });
    const columns = quantizeWeights(
      { values: Float32Array.of(1.27, -0.5, 0, -0.127, 0.05, 0), dims: [2, 3] },
      1,
      { type: "int8", symmetric: true },
    );
    expect({
      data: [...columns.data],
      firstScale: columns.scales[0],
      lastScale: columns.scales[2],
    }).toEqual({
      data: [127, -127, 0, -13, 13, 0],
      firstScale: Math.fround(0.01),
      lastScale: Math.fround(0.55 / 127 / 2),
    });
  });
});

describe("quantized weights", () => {
  it("deviate by at most half a step, and per-channel scales do not exceed the tensor's scale", () => {
    fc.assert(
      fc.property(anyWeights, anyScheme, fc.constantFrom(0, 1), (tensor, scheme, axis) => {
        const whole = quantizeWeights(tensor, undefined, scheme);
        const byChannel = quantizeWeights(tensor, axis, scheme);
        for (const { data, scales, zeroPoints } of [whole, byChannel]) {
          tensor.values.forEach((value, index) => {
            const channel =
              scales.length === 1
                ? 0
                : axis === 0
                  ? Math.floor(index / (tensor.dims[1] ?? 1))
                  : index % (tensor.dims[1] ?? 1);
            const scale = scales[channel] ?? Number.NaN;
            expect(
              Math.abs(
                scale * ((data[index] ?? Number.NaN) - (zeroPoints[channel] ?? Number.NaN)) - value,
              ),
            ).toBeLessThanOrEqual(scale / 2 + 1e-5 * Math.abs(value));
          });
        }
        const largest = whole.scales[0] ?? 0;
        for (const scale of byChannel.scales) expect(scale).toBeLessThanOrEqual(largest);
      }),
      { seed: 1 },
    );
  });

  it("respect the minimum scale", () => {
    const { data, scales } = quantizeWeights(
      { values: Float32Array.of(1, -2, 0.5, 0.25), dims: [2, 2] },
      0,
      { type: "int8", symmetric: true },
      [0.001, 0.25],
    );
    expect({ data: [...data], scales: [...scales] }).toEqual({
      data: [64, -127, 2, 1],
      scales: [Math.fround(2 / 127), 0.25],
    });
  });
});
