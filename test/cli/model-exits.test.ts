// `edgetier model exits`: where a graph can be cut, and what the command refuses. What comes of a cut is
// test/toolchain/early-exit/create-exits.test.ts.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { untrainedVisionProject } from "../toolchain/early-exit/untrained-vision-project.ts";
import { runEdgetier } from "../support/edgetier-command.ts";
import { writeSampleProject } from "../support/write-sample-project.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-exits-"));
  const { project, files } = untrainedVisionProject();
  await writeSampleProject(folder, project, new Map(files));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const exits = (...args: readonly string[]) => runEdgetier(["model", "exits", folder, ...args]);

describe("model exits", () => {
  it("proposes cuts as a table", async () => {
    const { code, stdout } = await exits("--propose");
    expect(code).toBe(0);
    const [header, ...rows] = stdout.trim().split("\n");
    expect(header).toMatch(/^VALUE +COMPUTED BEFORE +SHAPE +IN 8 BITS +NEEDED BESIDES$/);
    expect(rows).toEqual([
      expect.stringMatching(/^early +27\.\d % +\[-1, 8, 8, 8\] +0\.5 KiB$/),
      expect.stringMatching(/^flat +100\.0 % +\[-1, 8\] +0\.0 KiB$/),
    ]);
  });

  it("proposes cuts as JSON", async () => {
    const { stdout } = await exits("--propose", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      model: "net",
      tier: "region",
      cuts: [{ value: "early", besides: [], bytesPerRow: 512 }, { value: "flat" }],
    });
  });

  it.each<[what: string, args: readonly string[], code: number, says: RegExp]>([
    ["no place to cut", [], 2, /--at, or ask with --propose/],
    ["no samples", ["--at", "early"], 2, /Name --samples/],
    ["another tier", ["--propose", "--tier", "edge"], 1, /has no tier "edge".*\n.*region/],
    [
      "a number that is none",
      ["--at", "early", "--samples", "none", "--calibration", "none", "--limit", "x"],
      2,
      /--limit is "x"/,
    ],
  ])("refuses %s", async (_what, args, expected, says) => {
    const { code, stderr } = await exits(...args);
    expect([code, stderr]).toEqual([expected, expect.stringMatching(says)]);
  });
});
