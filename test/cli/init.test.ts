// The starters of `edgetier init`: each is imported by the very command that its recipe names, and answers its samples rightly.
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CLI_INVOCATION } from "../../src/cli/command-guides.ts";
import { readSmokeTestCases } from "../../src/cli/deploy/smoke-test-cases.ts";
import { renderDeploymentFiles } from "../../src/cli/init/deployment-files.ts";
import { renderProjectFiles } from "../../src/cli/init/project-files.ts";
import { INIT_TASKS, createStarter } from "../../src/cli/init/starters.ts";
import { readBuildPlan } from "../../src/toolchain/build-plan/build-plan.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { runEdgetier } from "../support/edgetier-command.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-init-"));
});
afterAll(() => rm(folder, { recursive: true }));

describe.each(INIT_TASKS)("a starter of %s", (task) => {
  const name = `my-${task}`;

  it("is imported as its recipe says, at the edge, and deployments know what to ask it", async () => {
    const starter = createStarter(task);
    for (const [path, content] of new Map([
      ...starter.files,
      ...renderProjectFiles(name, task, starter),
    ])) {
      await mkdir(dirname(join(folder, name, path)), { recursive: true });
      await writeFile(join(folder, name, path), content);
    }
    const recipe = await readFile(join(folder, name, "recipe/README.md"), "utf8");
    const [, command = ""] = new RegExp(`^ {4}${CLI_INVOCATION} (.*)$`, "m").exec(recipe) ?? [];
    const { code, stdout } = await runEdgetier([
      ...command.replaceAll("models/", `${folder}/`).split(" "),
      "--json",
    ]);
    expect(code).toBe(0);
    const { project, tried } = JSON.parse(stdout);
    const isLabelled = task.endsWith("classification");
    expect({ task: project.task, place: project.tiers[0].place, right: tried.right }).toEqual({
      task,
      place: "edge",
      ...(isLabelled ? { right: tried.samples } : {}),
    });
    expect(tried.madeUp).toBe(false);

    const source = await readProject(join(folder, name));
    expect((await readSmokeTestCases(source.project, join(folder, name))).length).toBeGreaterThan(
      1,
    );
    const plan = await readBuildPlan(join(folder, name));
    expect(plan?.tiers.map(({ tier }) => tier)).toEqual(
      isLabelled ? [project.tiers[0].id] : undefined,
    );
  }, 120_000);

  it("is the same each time", () => {
    expect(createStarter(task)).toEqual(createStarter(task));
  });
});

describe("a project without samples", () => {
  it("is asked something all the same, and no tensors are made up", async () => {
    const asked = async (task: (typeof INIT_TASKS)[number]) =>
      (
        await readSmokeTestCases(
          (await readProject(join(folder, `my-${task}`))).project,
          join(folder, "nowhere"),
        )
      ).map(({ name }) => name);
    expect(await asked("image-classification")).toEqual(["the example input"]);
    expect(await asked("tensor")).toEqual([]);
  });
});

describe("a deployment around it", () => {
  it("is named like its folder, and has the Worker of the package", async () => {
    const files = await renderDeploymentFiles("/home/me/My Shop (v2)");
    expect([...files.keys()]).toEqual(["wrangler.toml", "package.json", ".npmrc", ".gitignore"]);
    const config = files.get("wrangler.toml") ?? "";
    expect(config).toMatch(/^name = "my-shop-v2"$/m);
    expect(config).toMatch(
      /^main = "node_modules\/edgetier\/dist\/package\/functions\/edge\/main\.js"$/m,
    );
    expect(config).toMatch(/^command = "npx edgetier engine build"$/m);
    expect(config).not.toMatch(/"(functions|src)\//);
  });
});
