import * as fc from "fast-check";
import { expect, it } from "vitest";
import {
  generateApiKey,
  isWellFormedApiKey,
  hasApiKeyPrefix,
} from "../../../src/http/access/api-key.ts";

it("has a prefix, 256 random bits and a checksum, and is never the same", () => {
  const keys = Array.from({ length: 200 }, generateApiKey);
  for (const key of keys) expect(key).toMatch(/^edgetier_[0-9A-Za-z]{49}$/);
  expect(keys.every(isWellFormedApiKey)).toBe(true);
  expect(new Set(keys).size).toBe(200);
  // Every digit of the random part comes up; the first one only as far as 2 ** 256 reaches.
  expect(new Set(keys.flatMap((key) => key.slice(10, 52).split(""))).size).toBe(62);
});

it("shows any change, cut or addition without a look-up", () => {
  const key = generateApiKey();
  fc.assert(
    fc.property(fc.nat(key.length - 1), fc.stringMatching(/^[0-9A-Za-z_]$/), (at, character) => {
      const changed = key.slice(0, at) + character + key.slice(at + 1);
      expect(isWellFormedApiKey(changed)).toBe(changed === key);
    }),
  );
  for (let kept = 0; kept < key.length; kept++)
    expect(isWellFormedApiKey(key.slice(0, kept))).toBe(false);
  expect(isWellFormedApiKey(`${key}0`)).toBe(false);
  expect(hasApiKeyPrefix(key.slice(0, 20))).toBe(true);
});
