// Tests `edgetier model export`: its files, its JSON and its errors.
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { writeToyProject } from "../support/toy-project.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-export-"));
  await writeToyProject(join(folder, "toy"));
});
afterAll(() => rm(folder, { recursive: true }));

it("writes the files and prints the next step", async () => {
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
  expect(stdout).toMatch(/edge\.ort +\d[\s\S]* 0\.9\b/);
  expect((await readdir(out)).toSorted()).toEqual([
    "edge-features.json",
    "edge.ort",
    "edgetier-device.json",
    "labels.json",
  ]);
});

it("prints JSON with the version of --version", async () => {
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

it.each([
  ["--target", "coreml"],
  ["--version", "latest"],
])("rejects %s %s", async (option, value) => {
  expect(
    await runFailingEdgetier([
      "model",
      "export",
      join(folder, "toy"),
      "-o",
      join(folder, "no"),
      option,
      value,
    ]),
  ).toMatchObject({ exitCode: 2, code: "usage", detail: expect.stringContaining(value) });
});
