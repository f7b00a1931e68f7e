// Model projects: all problems are named together, and no file outside the folder is read.
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readProject, readProjects } from "../../src/toolchain/project.ts";
import { sampleFiles, sampleProject } from "../support/sample-model.ts";
import { writeSampleProject } from "../support/write-sample-project.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-project-"));
});
afterEach(() => rm(folder, { recursive: true }));

const [tier] = sampleProject.tiers;
const withGraph = (graph: string) => ({ ...sampleProject, tiers: [{ ...tier, graph }] });

it("reads the project and its files", async () => {
  await writeSampleProject(folder);
  expect(await readProject(folder)).toEqual({ project: sampleProject, files: sampleFiles() });
});

it("follows a link to a file inside the folder", async () => {
  await writeSampleProject(folder, withGraph("link.onnx"));
  await symlink("artifacts/student.onnx", join(folder, "link.onnx"));
  expect((await readProject(folder)).files.get("link.onnx")).toEqual(
    sampleFiles().get("artifacts/student.onnx"),
  );
});

it.each([
  "../outside",
  "artifacts/../../outside",
  "/etc/passwd",
  "..\\outside",
  "link-to-file",
  "link-to-folder/outside",
  "missing.onnx",
  "artifacts",
  "empty.onnx",
  ".",
])("rejects the artifact path %s", async (path) => {
  const inner = join(folder, "project");
  await mkdir(inner);
  await writeFile(join(folder, "outside"), "secret");
  await symlink(join(folder, "outside"), join(inner, "link-to-file"));
  await symlink(folder, join(inner, "link-to-folder"));
  await writeFile(join(inner, "empty.onnx"), "");
  await writeSampleProject(inner, withGraph(path));
  await expect(readProject(inner)).rejects.toMatchObject({
    code: "invalid_project",
    detail: expect.stringContaining(JSON.stringify(path)),
  });
});

it("names all problems together", async () => {
  await writeSampleProject(folder, { ...withGraph("/absolute"), labels: "../labels.json" });
  await expect(readProject(folder)).rejects.toMatchObject({
    code: "invalid_project",
    detail: expect.stringMatching(/"\.\.\/labels\.json".*"\/absolute"/),
  });
  await writeSampleProject(folder, { ...sampleProject, model: "NO", deadlineMs: 0 });
  await expect(readProject(folder)).rejects.toMatchObject({
    code: "invalid_project",
    detail: expect.stringMatching(/model: .*deadlineMs: /),
  });
});

it.each([
  ["{}", "labels.json"],
  ["[]", "labels.json"],
  ['["a","a"]', "labels.json"],
  ['["a","b","c"]', "tier student"],
  ["nope", "labels.json"],
])("rejects the labels %s and names %s", async (labels, subject) => {
  await writeSampleProject(folder);
  await writeFile(join(folder, "labels.json"), labels);
  await expect(readProject(folder)).rejects.toMatchObject({
    code: "invalid_project",
    detail: expect.stringContaining(subject),
  });
});

it("rejects a missing project, and a model.json that is not JSON", async () => {
  await expect(readProject(join(folder, "nowhere"))).rejects.toMatchObject({
    code: "invalid_project",
    detail: expect.stringMatching(/model\.json.*ENOENT/),
  });
  await writeFile(join(folder, "model.json"), "{");
  await expect(readProject(folder)).rejects.toMatchObject({
    code: "invalid_project",
    detail: expect.stringMatching(/model\.json.*JSON/),
  });
});

it("skips and reports a project whose recipe has not made its files yet", async () => {
  const write = async (
    name: string,
    { hasFiles, hasRecipe }: { hasFiles: boolean; hasRecipe: boolean },
  ) => {
    await mkdir(join(folder, name, "recipe"), { recursive: true });
    if (hasFiles) await writeSampleProject(join(folder, name));
    else await writeFile(join(folder, name, "model.json"), JSON.stringify(sampleProject));
    if (hasRecipe) await writeFile(join(folder, name, "recipe/README.md"), "how");
  };
  await write("built", { hasFiles: true, hasRecipe: true });
  await write("unbuilt", { hasFiles: false, hasRecipe: true });
  const lines: string[] = [];
  const sources = await readProjects(folder, (line) => lines.push(line));
  expect(sources.map(({ project }) => project)).toEqual([sampleProject]);
  expect(lines).toEqual([expect.stringMatching(/^unbuilt .*\/unbuilt\/recipe\/README\.md/)]);
  await write("broken", { hasFiles: false, hasRecipe: false });
  await expect(readProjects(folder)).rejects.toMatchObject({ code: "invalid_project" });
});
