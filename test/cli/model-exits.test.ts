// Tests `edgetier model exits`: the proposed cuts and the errors. test/toolchain/early-exit/create-exits.test.ts tests the
// graphs of a cut.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { writeSampleProject } from "../support/write-sample-project.ts";
import { untrainedVisionProject } from "../toolchain/early-exit/untrained-vision-project.ts";

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
    expect(header).toMatch(/^VALUE +COMPUTED BEFORE +SHAPE +IN 8 BITS +\S/);
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

  const withSamples = ["--at", "early", "--samples", "none", "--calibration", "none"];
  it.each([
    ["no cut", [], 2, "usage", "--at"],
    ["no samples", ["--at", "early"], 2, "usage", "--samples"],
    ["an unknown tier", ["--propose", "--tier", "edge"], 1, "no_such_tier", '"edge"'],
    ["an invalid number", [...withSamples, "--limit", "x"], 2, "usage", "--limit"],
  ])("rejects %s", async (_, args, exitCode, code, value) => {
    expect(await runFailingEdgetier(["model", "exits", folder, ...args])).toMatchObject({
      exitCode,
      code,
      detail: expect.stringContaining(value),
    });
  });
});
