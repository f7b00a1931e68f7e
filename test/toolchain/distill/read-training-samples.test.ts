import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  readTabularSamples,
  readTextSamples,
} from "../../../src/toolchain/distill/read-training-samples.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-read-samples-"));
});
afterAll(() => rm(folder, { recursive: true }));

const limits = { maxBytes: 32 };
async function writeLines(name: string, lines: readonly string[]): Promise<string> {
  await writeFile(join(folder, name), lines.join("\n"));
  return join(folder, name);
}

describe("readTextSamples", () => {
  it("reads lines with and without labels", async () => {
    const path = await writeLines("texts.jsonl", [
      '{"text": "yes"}',
      "",
      '{"text": "no", "label": "no", "more": 1}',
    ]);
    expect(await readTextSamples(path, limits)).toEqual([
      { text: "yes", label: undefined },
      { text: "no", label: "no" },
    ]);
  });

  it("reads a folder with one text in each file", async () => {
    await mkdir(join(folder, "texts/deep"), { recursive: true });
    await writeFile(join(folder, "texts/b.txt"), "two");
    await writeFile(join(folder, "texts/deep/c.txt"), "three");
    expect(await readTextSamples(join(folder, "texts"), limits)).toEqual([
      { text: "two" },
      { text: "three" },
    ]);
  });

  it.each([
    ["a line that is not JSON", ["{"], /\bline 1\b/],
    ["a line without a text", ['{"text": "a"}', '{"label": "a"}'], /\bline 2: text\b/],
    ["a text that is too long", [JSON.stringify({ text: "a".repeat(33) })], /\b33 bytes\b/],
    ["a file without samples", [], /\bno samples\b/],
  ])("rejects %s", async (_, lines, value) => {
    const path = await writeLines("wrong.jsonl", lines);
    await expect(readTextSamples(path, limits)).rejects.toMatchObject({
      code: "invalid_training_samples",
      detail: expect.stringMatching(value),
    });
  });

  it("rejects a missing file", async () => {
    await expect(readTextSamples(join(folder, "nowhere"), limits)).rejects.toMatchObject({
      code: "invalid_training_samples",
    });
  });
});

describe("readTabularSamples", () => {
  it("reads rows with labels by name and by position", async () => {
    const path = await writeLines("rows.jsonl", [
      '{"row": [1, 2]}',
      '{"row": [3, 4], "label": "no"}',
      '{"row": [5, 6], "label": 0}',
    ]);
    const rows = await readTabularSamples(path, 2, ["yes", "no"]);
    expect(rows).toEqual([
      { row: Float32Array.of(1, 2), label: undefined },
      { row: Float32Array.of(3, 4), label: 1 },
      { row: Float32Array.of(5, 6), label: 0 },
    ]);
  });

  it.each([
    ["a row of another width", '{"row": [1]}', /\b1 number.*\b2\b/],
    ["an unknown label", '{"row": [1, 2], "label": "maybe"}', /"maybe"/],
    ["a string in a row", '{"row": ["1", 2]}', /\brow\.0\b/],
    ["a number beyond the range of FP32", '{"row": [1e300, 2]}', /\bfinite\b/],
  ])("rejects %s", async (_, line, value) => {
    const path = await writeLines("wrong-rows.jsonl", [line]);
    await expect(readTabularSamples(path, 2, ["yes", "no"])).rejects.toMatchObject({
      code: "invalid_training_samples",
      detail: expect.stringMatching(value),
    });
  });
});
