// API keys: format and checksum.
import * as fc from "fast-check";
import { expect, it } from "vitest";
import {
  generateApiKey,
  isWellFormedApiKey,
  hasApiKeyPrefix,
} from "../../../src/http/access/api-key.ts";

it("generates different keys with prefix, 256 random bits and checksum", () => {
  const keys = Array.from({ length: 200 }, generateApiKey);
  for (const key of keys) expect(key).toMatch(/^edgetier_[0-9A-Za-z]{49}$/);
  expect(keys.every(isWellFormedApiKey)).toBe(true);
  expect(new Set(keys).size).toBe(200);
  // All 62 digits occur in the random part. Its first digit is left out, because 2 ** 256 limits it.
  expect(new Set(keys.flatMap((key) => key.slice(10, 52).split(""))).size).toBe(62);
});

it("detects any change, truncation or addition without a lookup", () => {
  const key = generateApiKey();
  fc.assert(
    fc.property(
      fc.nat(key.length - 1),
      fc.stringMatching(/^[0-9A-Za-z_]$/),
      (position, character) => {
        const changed = key.slice(0, position) + character + key.slice(position + 1);
        expect(isWellFormedApiKey(changed)).toBe(changed === key);
      },
    ),
  );
  for (let length = 0; length < key.length; length++)
    expect(isWellFormedApiKey(key.slice(0, length))).toBe(false);
  expect(isWellFormedApiKey(`${key}0`)).toBe(false);
  expect(hasApiKeyPrefix(key.slice(0, 20))).toBe(true);
});
