import { expect, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { VERSION } from "../../src/core/version.ts";

it("is package.json's", () => {
  expect(VERSION).toBe(packageJson.version);
});
