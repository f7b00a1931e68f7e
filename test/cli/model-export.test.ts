// `edgetier model export` as its users meet it.
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { runEdgetier } from "../support/edgetier-command.ts";
import { writeToyProject } from "../support/toy-project.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-export-"));
  await writeToyProject(join(folder, "toy"));
});
afterAll(() => rm(folder, { recursive: true }));

it("writes the files, and says what comes next", async () => {
  const out = join(folder, "app");
  const { code, stdout, stderr } = await runEdgetier([
    "model",
    "export",
    join(folder, "toy"),
    "--target",
    "ort-mobile",
    "-o",
    out,
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^Next: /) });
  expect(stdout).toMatch(
    /edge\.ort +\d[\s\S]*edge answers from a confidence of 0\.9; the edge answers the rest\./,
  );
  expect((await readdir(out)).toSorted()).toEqual([
    "edge-features.json",
    "edge.ort",
    "edgetier-device.json",
    "labels.json",
  ]);
});

it("gives JSON, and the version that it is told", async () => {
  const { code, stdout } = await runEdgetier([
    "model",
    "export",
    join(folder, "toy"),
    "-o",
    join(folder, "json"),
    "--version",
    "7",
    "--json",
  ]);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    manifest: { schemaVersion: 1, model: "toy", version: 7 },
    differences: { edge: expect.any(Number) },
  });
});

it("refuses a target and a version that are none", async () => {
  for (const more of [
    ["--target", "coreml"],
    ["--version", "latest"],
  ]) {
    const { code, stderr } = await runEdgetier([
      "model",
      "export",
      join(folder, "toy"),
      "-o",
      join(folder, "no"),
      ...more,
    ]);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/coreml|latest/);
  }
});
