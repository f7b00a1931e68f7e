import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CacheKeyFields, formatCacheKey, hashCacheKey } from "../../src/cache/cache-key.ts";
import { propertyRuns } from "../support/property-runs.ts";

/** Short strings of the characters that separate fields in a key. */
const fieldArbitrary = fc.string({
  unit: fc.constantFrom("1", "2", ":", "0", "a", "|"),
  maxLength: 4,
});
const keyFieldsArbitrary: fc.Arbitrary<CacheKeyFields> = fc.record({
  tenant: fieldArbitrary,
  model: fieldArbitrary,
  version: fc.integer({ min: 1, max: 12 }),
  manifestDigest: fieldArbitrary,
  parameters: fc.array(fc.oneof(fieldArbitrary, fc.integer({ min: 0, max: 12 })), { maxLength: 3 }),
  input: fieldArbitrary,
});

const canonicalJson = ({
  tenant,
  model,
  version,
  manifestDigest,
  parameters,
  input,
}: CacheKeyFields) =>
  JSON.stringify([tenant, model, version, manifestDigest, parameters.map(String), input]);

describe("the cache key", () => {
  it("is equal only for equal requests (property)", () => {
    fc.assert(
      fc.property(keyFieldsArbitrary, keyFieldsArbitrary, (a, b) => {
        expect(formatCacheKey(a) === formatCacheKey(b)).toBe(canonicalJson(a) === canonicalJson(b));
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });

  it("separates neighboring fields", () => {
    const base: CacheKeyFields = {
      tenant: "t",
      model: "m",
      version: 1,
      manifestDigest: "d",
      parameters: [5, ""],
      input: "x",
    };
    const others: CacheKeyFields[] = [
      { ...base, tenant: "", model: "tm" },
      { ...base, model: "m1" },
      { ...base, version: 11 },
      { ...base, manifestDigest: "", input: "dx" },
      { ...base, parameters: [5] },
      { ...base, parameters: [5, "", "x"], input: "" },
      { ...base, parameters: [], input: "1:5x" },
      { ...base, input: "x1:x" },
    ];
    expect(new Set([base, ...others].map(formatCacheKey)).size).toBe(9);
  });

  it("does not reveal the input outside the isolate", async () => {
    expect(
      await hashCacheKey(
        formatCacheKey({
          tenant: "t",
          model: "m",
          version: 1,
          manifestDigest: "d",
          parameters: [],
          input: "secret",
        }),
      ),
    ).toMatch(/^[0-9a-f]{64}$/);
  });
});
