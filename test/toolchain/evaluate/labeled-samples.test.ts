// Labeled samples: reading them from JSON lines and from folders.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { textClassificationTask } from "../../../src/tasks/text-classification.ts";
import { readSamples } from "../../../src/toolchain/evaluate/labeled-samples.ts";

const options = { task: textClassificationTask, limits: { maxBytes: 10 } };

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-samples-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function writeLines(...content: string[]): Promise<string> {
  const path = join(folder, "samples.jsonl");
  await writeFile(path, `${content.join("\n")}\n`);
  return path;
}

describe("readSamples", () => {
  it("reads texts, and files relative to the folder of the JSON lines", async () => {
    await writeFile(join(folder, "one.txt"), "from file");
    const path = await writeLines(
      '{"text": "hello", "label": "a", "more": 1}',
      "",
      '{"file": "one.txt", "label": "b"}',
    );
    expect(await readSamples(path, options)).toEqual([
      { input: { kind: "text", text: "hello" }, label: "a" },
      { input: { kind: "text", text: "from file" }, label: "b" },
    ]);
  });

  it("reads a folder with one subfolder per label", async () => {
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
    expect(await readSamples(root, options)).toEqual([
      { input: { kind: "text", text: "no 1" }, label: "no" },
      { input: { kind: "text", text: "yes 1" }, label: "yes" },
      { input: { kind: "text", text: "yes 2" }, label: "yes" },
    ]);
  });

  it("draws at most the limit, the same samples for the same seed", async () => {
    const path = await writeLines(
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
});

describe("readSamples on invalid samples", () => {
  it.each([
    ["a line that is not JSON", ["{"], "line 1"],
    ["a line without a label", ['{"text": "a", "label": "x"}', '{"text": "a"}'], "line 2"],
    ["a text that the model would reject", ['{"text": "much too long", "label": "x"}'], "line 1"],
    ["a missing file", ['{"file": "absent", "label": "x"}'], "ENOENT"],
    ["an empty file", [], "samples.jsonl"],
  ])("rejects %s", async (_name, content, location) => {
    await expect(readSamples(await writeLines(...content), options)).rejects.toMatchObject({
      code: "invalid_samples",
      detail: expect.stringContaining(location),
    });
  });

  it("rejects a missing path", async () => {
    await expect(readSamples(join(folder, "absent"), options)).rejects.toMatchObject({
      code: "invalid_samples",
      detail: expect.stringContaining("ENOENT"),
    });
  });
});
