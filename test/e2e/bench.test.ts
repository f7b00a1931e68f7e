// Tests `edgetier bench` on the real edge in workerd and on its region: every protocol, and the metadata of replies.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type LoadReport, loadReportSchema, type Trial } from "../../src/cli/load/report-schema.ts";
import { runEdgetier } from "../support/edgetier-command.ts";
import { startFixtureSystem, type FixtureSystem } from "../support/fixture-system.ts";

let system: FixtureSystem;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-bench-"));
  system = await startFixtureSystem();
});
afterAll(async () => {
  await system?.stop();
  await rm(folder, { recursive: true, force: true });
});

async function bench(
  url: string,
  model: string,
  ...more: string[]
): Promise<LoadReport & { readonly trial: Trial }> {
  const { code, stdout, stderr } = await runEdgetier([
    "bench",
    url,
    "--model",
    model,
    "--rate",
    "60",
    "--duration",
    "1500ms",
    "--warm-up",
    "500ms",
    "--json",
    ...more,
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const report = loadReportSchema.parse(JSON.parse(stdout));
  const [trial] = report.trials;
  if (trial === undefined) throw new Error("there is no trial");
  expect(trial).toMatchObject({ errors: [], answered: trial.scheduled });
  return { ...report, trial };
}

it("reports the tiers of texts", async () => {
  const inputs = join(folder, "texts.jsonl");
  await writeFile(inputs, '"yes"\n"maybe"\n');
  const { protocol, trial } = await bench(
    system.urls.edge,
    "toy",
    "--inputs",
    inputs,
    "--cache",
    "bypass",
  );
  expect(protocol).toBe("predict");
  expect(trial.caches).toMatchObject([{ name: "bypass", share: 1 }]);
  expect(trial.tiers.map(({ name }) => name).toSorted()).toEqual(["edge", "region"]);
  expect(trial.phases.map(({ phase }) => phase)).toContain("region"); // the edge's clock pauses while it computes
});

it("reports cached answers, with a warning", async () => {
  const inputs = join(folder, "one.jsonl");
  await writeFile(inputs, '"yes"\n');
  const { trial } = await bench(system.urls.edge, "toy", "--inputs", inputs);
  expect(trial.caches).toMatchObject([{ name: "l1", share: 1 }]); // the call before the load filled it
  expect(trial.warnings).toContainEqual(expect.stringContaining("cache"));
});

it("counts degraded answers", async () => {
  const inputs = join(folder, "unsure.jsonl");
  await writeFile(inputs, '"maybe"\n');
  system.proxy.behavior = "resets";
  try {
    const { trial } = await bench(system.urls.edge, "toy", "--inputs", inputs, "--cache", "bypass");
    expect(trial.degraded.share).toBe(1);
  } finally {
    system.proxy.behavior = "forwards";
  }
});

it.each([
  ["made-up images", "colours", "predict"],
  ["vectors", "vectors", "embeddings"],
  ["tensors", "matmul", "infer"],
])("%s", async (_what, model, protocol) => {
  const more = model === "vectors" ? ["--cache", "bypass"] : [];
  expect(await bench(system.urls.edge, model, ...more)).toMatchObject({
    protocol,
    trial: { scheduled: expect.any(Number) },
  });
});

it("a region alone, by the Open Inference Protocol", async () => {
  expect((await bench(system.urls.region, "matmul", "--protocol", "infer")).trial.tiers).toEqual(
    [],
  );
});
