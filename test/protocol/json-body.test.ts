// Tests JSON as Triton and its clients write it, with unquoted non-finite numbers.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseJsonBody } from "../../src/protocol/json-body.ts";

const parseText = (text: string) => parseJsonBody(new TextEncoder().encode(text));

describe("non-finite numbers", () => {
  it.each<[text: string, value: unknown]>([
    ["[NaN,Infinity,-Infinity]", ["NaN", "Infinity", "-Infinity"]],
    ["[ Inf , -Inf , -NaN ]", ["Infinity", "-Infinity", "NaN"]],
    [
      '{"data":[1.5,NaN,-0.0],"NaN":"[NaN, \\"Infinity\\\\"}',
      { data: [1.5, "NaN", -0], NaN: '[NaN, "Infinity\\' },
    ],
    ["[9007199254740993,NaN]", [9007199254740993n, "NaN"]],
    ["NaN", "NaN"],
  ])("become strings: %s", (text, value) => {
    expect(parseText(text)).toEqual(value);
  });

  it.each(["[NaNa]", "[xNaN]", "[nan]", "[+Infinity]", "[NaN", '["NaN', "[--Infinity]", "[Info]"])(
    "do not make invalid JSON valid: %s",
    (text) => {
      expect(() => parseText(text)).toThrow(expect.objectContaining({ code: "invalid_json" }));
    },
  );

  it("do not affect other JSON (property)", () => {
    const json = fc.json().filter((text) => !/\d{16}/.test(text)); // long integers become bigints
    fc.assert(fc.property(json, (text) => void expect(parseText(text)).toEqual(JSON.parse(text))));
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(Number.NaN, Infinity, -Infinity, "NaN", '\\"', 1)),
        (values) => {
          const bare = `[${values.map((value) => (typeof value === "string" ? JSON.stringify(value) : String(value))).join(",")}]`;
          expect(parseText(bare)).toEqual(
            values.map((value) =>
              typeof value === "number" && !Number.isFinite(value) ? String(value) : value,
            ),
          );
        },
      ),
    );
  });

  it("are parsed in large numbers, also before an unterminated string", () => {
    expect(parseText(`[${"NaN,".repeat(500_000)}1]`)).toHaveLength(500_001);
    expect(() => parseText(`[NaN,"${'\\"'.repeat(1_000_000)}`)).toThrow(
      expect.objectContaining({ code: "invalid_json" }),
    );
  });
});
