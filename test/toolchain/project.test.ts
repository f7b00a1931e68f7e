// Reading a model project: what is wrong is named, all of it, and no file outside the folder is ever read.
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

it("follows a link that stays inside", async () => {
  await writeSampleProject(folder, withGraph("link.onnx"));
  await symlink("artifacts/student.onnx", join(folder, "link.onnx"));
  expect((await readProject(folder)).files.get("link.onnx")).toEqual(
    sampleFiles().get("artifacts/student.onnx"),
  );
});

it.each([
  ["../outside", "leaves the folder"],
  ["artifacts/../../outside", "leaves the folder"],
  ["/etc/passwd", "relative"],
  ["..\\outside", "relative"],
  ["link-to-file", "link that leaves"],
  ["link-to-folder/outside", "link that leaves"],
  ["missing.onnx", "cannot be read"],
  ["artifacts", "cannot be read"],
  ["empty.onnx", "is empty"],
  [".", "link that leaves"],
])("refuses the artifact path %s", async (path, problem) => {
  const inner = join(folder, "project");
  await mkdir(inner);
  await writeFile(join(folder, "outside"), "secret");
  await symlink(join(folder, "outside"), join(inner, "link-to-file"));
  await symlink(folder, join(inner, "link-to-folder"));
  await writeFile(join(inner, "empty.onnx"), "");
  await writeSampleProject(inner, withGraph(path));
  await expect(readProject(inner)).rejects.toMatchObject({
    code: "invalid_project",
    detail: expect.stringContaining(problem),
  });
});

it("tells all problems together", async () => {
  await writeSampleProject(folder, { ...withGraph("/absolute"), labels: "../labels.json" });
  await expect(readProject(folder)).rejects.toMatchObject({
    detail: expect.stringMatching(/labels\.json.*leaves the folder.*absolute.*relative/),
  });
  await writeSampleProject(folder, { ...sampleProject, model: "NO", deadlineMs: 0 });
  await expect(readProject(folder)).rejects.toMatchObject({
    detail: expect.stringMatching(/model: .*deadlineMs: /),
  });
});

it.each([
  ["{}", "JSON array"],
  ["[]", "at least one"],
  ['["a","a"]', "repeats"],
  ['["a","b","c"]', "2 logits for 3 labels"],
  ["nope", "not JSON"],
])("refuses the labels %s", async (labels, problem) => {
  await writeSampleProject(folder);
  await writeFile(join(folder, "labels.json"), labels);
  await expect(readProject(folder)).rejects.toMatchObject({
    code: "invalid_project",
    detail: expect.stringContaining(problem),
  });
});

it("says that there is no project, or that it is not JSON", async () => {
  await expect(readProject(join(folder, "nowhere"))).rejects.toMatchObject({
    code: "invalid_project",
  });
  await writeFile(join(folder, "model.json"), "{");
  await expect(readProject(folder)).rejects.toMatchObject({
    code: "invalid_project",
    detail: expect.stringContaining("model.json cannot be read"),
  });
});

it("leaves a project out of a folder of them whose recipe has yet to make its files, and says so", async () => {
  const write = async (name: string, made: boolean, recipe: boolean) => {
    await mkdir(join(folder, name, "recipe"), { recursive: true });
    if (made) await writeSampleProject(join(folder, name));
    else await writeFile(join(folder, name, "model.json"), JSON.stringify(sampleProject));
    if (recipe) await writeFile(join(folder, name, "recipe/README.md"), "how");
  };
  await write("made", true, true);
  await write("unmade", false, true);
  const told: string[] = [];
  expect(
    (await readProjects(folder, (line) => told.push(line))).map(({ project }) => project),
  ).toEqual([sampleProject]);
  expect(told).toEqual([expect.stringMatching(/^unmade is left out.*unmade\/recipe\/README\.md/)]);
  await write("broken", false, false);
  await expect(readProjects(folder)).rejects.toMatchObject({ code: "invalid_project" });
});
