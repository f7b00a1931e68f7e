import { expect, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { VERSION } from "../../src/core/version.ts";

it("has the version of package.json", () => {
  expect(VERSION).toBe(packageJson.version);
});
