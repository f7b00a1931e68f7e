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
async function file(name: string, lines: readonly string[]): Promise<string> {
  await writeFile(join(folder, name), lines.join("\n"));
  return join(folder, name);
}

describe("readTextSamples", () => {
  it("reads lines with labels and without", async () => {
    const path = await file("texts.jsonl", [
      '{"text": "yes"}',
      "",
      '{"text": "no", "label": "no", "more": 1}',
    ]);
    expect(await readTextSamples(path, limits)).toEqual([
      { text: "yes", label: undefined },
      { text: "no", label: "no" },
    ]);
  });

  it("reads a folder, one text a file", async () => {
    await mkdir(join(folder, "texts/deep"), { recursive: true });
    await writeFile(join(folder, "texts/b.txt"), "two");
    await writeFile(join(folder, "texts/deep/c.txt"), "three");
    expect(await readTextSamples(join(folder, "texts"), limits)).toEqual([
      { text: "two" },
      { text: "three" },
    ]);
  });

  it.each([
    ["what is no JSON", ["{"], "line 1"],
    ["a line without a text", ['{"text": "a"}', '{"label": "a"}'], "line 2: text"],
    ["a text that is too long", [JSON.stringify({ text: "a".repeat(33) })], "33 bytes"],
    ["nothing", [], "there is none"],
  ])("refuses %s", async (_, lines, message) => {
    const path = await file("wrong.jsonl", lines);
    await expect(readTextSamples(path, limits)).rejects.toMatchObject({
      code: "invalid_training_samples",
      detail: expect.stringContaining(message),
    });
  });

  it("says what a file is missing", async () => {
    await expect(readTextSamples(join(folder, "nowhere"), limits)).rejects.toMatchObject({
      code: "invalid_training_samples",
    });
  });
});

describe("readTabularSamples", () => {
  it("reads rows, with labels by name and by position", async () => {
    const path = await file("rows.jsonl", [
      '{"row": [1, 2]}',
      '{"row": [3, 4], "label": "no"}',
      '{"row": [5, 6], "label": 0}',
    ]);
    const rows = await readTabularSamples(path, 2, ["yes", "no"]);
    expect(rows.map(({ row, label }) => [[...row], label])).toEqual([
      [[1, 2], undefined],
      [[3, 4], 1],
      [[5, 6], 0],
    ]);
  });

  it.each([
    ["a row of another width", '{"row": [1]}', "a row has 1 numbers, and the teacher takes 2"],
    ["a label that is not there", '{"row": [1, 2], "label": "maybe"}', "maybe"],
    ["what is no number", '{"row": ["1", 2]}', "row.0"],
    ["a number that FP32 has not", '{"row": [1e300, 2]}', "not finite"],
  ])("refuses %s", async (_, line, message) => {
    const path = await file("wrong-rows.jsonl", [line]);
    await expect(readTabularSamples(path, 2, ["yes", "no"])).rejects.toMatchObject({
      code: "invalid_training_samples",
      detail: expect.stringContaining(message),
    });
  });
});
