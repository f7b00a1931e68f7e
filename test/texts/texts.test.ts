// Snapshot of the texts that people read: errors of every owner, and the help of every command. All other tests assert codes
// and values. `npx vitest run --project node test/texts -u` accepts changed texts.

import { describe, expect, it } from "vitest";
import { readErrorTexts } from "./read-error-texts.ts";
import { readHelpTexts } from "./read-help-texts.ts";

const errorTexts = readErrorTexts();
const helpTexts = await readHelpTexts();

const fileNameOf = (key: string): string =>
  key
    .replace(/^src\//, "")
    .replace(/\.ts$/, "")
    .replaceAll(/[/ ]/g, "-");

describe("error texts", () => {
  it("are those of every owner of an error table", () => {
    expect(errorTexts.size).toBeGreaterThanOrEqual(19);
  });

  it.each([...errorTexts])("of %s match their snapshot", async (path, text) => {
    await expect(text).toMatchFileSnapshot(`errors/${fileNameOf(path)}.txt`);
  });
});

describe("help texts", () => {
  it.each([...helpTexts])("of `edgetier %s` match their snapshot", async (path, text) => {
    await expect(text).toMatchFileSnapshot(
      `help/${fileNameOf(path === "" ? "edgetier" : path)}.txt`,
    );
  });
});
