import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AnswerIdentity, cacheKey, sharedCacheKey } from "../../src/cache/key.ts";

/** Short, and full of what separates fields in a key. */
const field = fc.string({ unit: fc.constantFrom("1", "2", ":", "0", "a", "|"), maxLength: 4 });
const identity: fc.Arbitrary<AnswerIdentity> = fc.record({
  tenant: field,
  model: field,
  version: fc.integer({ min: 1, max: 12 }),
  manifestDigest: field,
  parameters: fc.array(fc.oneof(field, fc.integer({ min: 0, max: 12 })), { maxLength: 3 }),
  input: field,
});

const canonical = ({ tenant, model, version, manifestDigest, parameters, input }: AnswerIdentity) =>
  JSON.stringify([tenant, model, version, manifestDigest, parameters.map(String), input]);

describe("the cache key", () => {
  it("is the same for the same request, and for no other", () => {
    fc.assert(
      fc.property(identity, identity, (a, b) => {
        expect(cacheKey(a) === cacheKey(b)).toBe(canonical(a) === canonical(b));
      }),
      { numRuns: 2_000 },
    );
  });

  it("does not mistake one field for its neighbour", () => {
    const base: AnswerIdentity = {
      tenant: "t",
      model: "m",
      version: 1,
      manifestDigest: "d",
      parameters: [5, ""],
      input: "x",
    };
    const others: AnswerIdentity[] = [
      { ...base, tenant: "", model: "tm" },
      { ...base, model: "m1" },
      { ...base, version: 11 },
      { ...base, manifestDigest: "", input: "dx" },
      { ...base, parameters: [5] },
      { ...base, parameters: [5, "", "x"], input: "" },
      { ...base, parameters: [], input: "1:5x" },
      { ...base, input: "x1:x" },
    ];
    expect(new Set([base, ...others].map(cacheKey)).size).toBe(9);
  });

  it("says nothing of the input outside the isolate", async () => {
    expect(
      await sharedCacheKey(
        cacheKey({
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
