// Deprecated values in package.json: commands accept them and print a warning on stderr.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { runEdgetier } from "../support/edgetier-command.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-deprecated-"));
  await mkdir(join(folder, "models"));
});
afterAll(() => rm(folder, { recursive: true }));

async function buildEngine(engine: string) {
  const config = join(folder, engine);
  await mkdir(config);
  await writeFile(join(config, "package.json"), JSON.stringify({ edgetier: { engine } }));
  const { code, stdout, stderr } = await runEdgetier([
    "engine",
    "build",
    "--json",
    "--models",
    join(folder, "models"),
    "--config",
    config,
    "--out",
    join(config, "edge"),
  ]);
  const { engine: report } = JSON.parse(stdout) as { engine: { kind: string; reason: string } };
  return { code, stderr, reason: report.reason };
}

it(
  "warns in one line that the engine is named cut, and strips it",
  { timeout: 60_000 },
  async () => {
    const stripped = await buildEngine("stripped");
    expect(stripped).toMatchObject({ code: 0, stderr: "" });
    expect(await buildEngine("cut")).toEqual({
      ...stripped,
      stderr: expect.stringMatching(/^warning: .*edgetier\.engine.*"cut".*"stripped".*\n$/),
    });
  },
);
