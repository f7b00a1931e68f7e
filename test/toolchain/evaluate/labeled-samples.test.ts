import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readSamples } from "../../../src/toolchain/evaluate/labeled-samples.ts";
import { textClassificationTask } from "../../../src/tasks/text-classification.ts";

const options = { task: textClassificationTask, limits: { maxBytes: 10 } };

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-samples-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function lines(...content: string[]): Promise<string> {
  const path = join(folder, "samples.jsonl");
  await writeFile(path, `${content.join("\n")}\n`);
  return path;
}

describe("readSamples", () => {
  it("reads texts, and files that lie beside", async () => {
    await writeFile(join(folder, "one.txt"), "from file");
    const path = await lines(
      '{"text": "hello", "label": "a", "more": 1}',
      "",
      '{"file": "one.txt", "label": "b"}',
    );
    expect(await readSamples(path, options)).toEqual([
      { input: { kind: "text", text: "hello" }, label: "a" },
      { input: { kind: "text", text: "from file" }, label: "b" },
    ]);
  });

  it("reads a folder with one folder for each label", async () => {
    const root = join(folder, "by-label");
    for (const [label, name] of [
      ["yes", "1"],
      ["yes", "2"],
      ["no", "1"],
    ] as const) {
      await mkdir(join(root, label), { recursive: true });
      await writeFile(join(root, label, name), `${label} ${name}`);
    }
    await writeFile(join(root, "README"), "no sample");
    const samples = await readSamples(root, options);
    expect(samples.map(({ input, label }) => [input, label])).toEqual([
      [{ kind: "text", text: "no 1" }, "no"],
      [{ kind: "text", text: "yes 1" }, "yes"],
      [{ kind: "text", text: "yes 2" }, "yes"],
    ]);
  });

  it("takes some of them, the same each time for a seed", async () => {
    const path = await lines(
      ...Array.from({ length: 50 }, (_, index) =>
        JSON.stringify({ text: `t${index}`, label: "a" }),
      ),
    );
    const chosen = await readSamples(path, { ...options, limit: 10 });
    expect(chosen).toHaveLength(10);
    expect(
      new Set(chosen.map(({ input }) => textClassificationTask.computeIdentity(input))).size,
    ).toBe(10);
    expect(await readSamples(path, { ...options, limit: 10 })).toEqual(chosen);
    expect(await readSamples(path, { ...options, limit: 10, seed: 2 })).not.toEqual(chosen);
  });

  it.each([
    ["a line that is no JSON", ["{"], "line 1"],
    ["a line without a label", ['{"text": "a", "label": "x"}', '{"text": "a"}'], "line 2"],
    ["a text that the model would refuse", ['{"text": "much too long", "label": "x"}'], "line 1"],
    ["a file that is not there", ['{"file": "absent", "label": "x"}'], "ENOENT"],
    ["no sample at all", [], "there is none"],
  ])("refuses %s", async (_, content, problem) => {
    await expect(readSamples(await lines(...content), options)).rejects.toMatchObject({
      code: "invalid_samples",
      detail: expect.stringContaining(problem),
    });
  });

  it("refuses a path that is not there", async () => {
    await expect(readSamples(join(folder, "absent"), options)).rejects.toMatchObject({
      code: "invalid_samples",
      detail: expect.stringContaining("ENOENT"),
    });
  });
});
