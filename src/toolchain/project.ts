// Reads a model project folder: model.json and the files that it names. The files must lie inside the folder. All
// problems are reported together.

import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { isAbsolute, join, normalize, sep } from "node:path";
import { LOGITS_OUTPUT } from "../cascade/calibration.ts";
import { formatZodIssues } from "../core/config.ts";
import { reasonOf, formatValue } from "../core/errors.ts";
import {
  type ClassificationProject,
  isClassificationProject,
  modelProjectSchema,
  type ModelProject,
} from "../registry/manifest.ts";
import { listProjectFiles, type PublishSource } from "../registry/publish.ts";
import { publishingErrors } from "../registry/publishing-errors.ts";
import { parseLabelFile } from "../tasks/labels.ts";
import { dropStaleReport } from "./stale-report.ts";

export const PROJECT_FILE = "model.json";
const RECIPE_FILE = "recipe/README.md";

/**
 * @param folder contains `model.json`
 * @returns the project and the bytes of every file that it names, by path
 * @throws invalid_project naming every problem
 */
export async function readProject(folder: string): Promise<PublishSource> {
  const project = await readProjectFile(folder);
  const { files, problems } = await readFiles(folder, listProjectFiles(project));
  if (isClassificationProject(project)) problems.push(...findLabelProblems(project, files));
  if (problems.length > 0) throw publishingErrors.invalidProject(folder, problems);
  return { project: dropStaleReport(project, files), files };
}

/** Reads further files from a project's folder. @throws invalid_project naming every problem */
export async function readProjectFiles(
  folder: string,
  paths: readonly string[],
): Promise<Map<string, Uint8Array>> {
  const { files, problems } = await readFiles(folder, paths);
  if (problems.length > 0) throw publishingErrors.invalidProject(folder, problems);
  return files;
}

async function readFiles(
  folder: string,
  paths: readonly string[],
): Promise<{ readonly files: Map<string, Uint8Array>; readonly problems: string[] }> {
  const root = await realpath(folder);
  const files = new Map<string, Uint8Array>();
  const problems: string[] = [];
  for (const path of paths) {
    const bytesOrProblem = await readContainedFile(root, path);
    if (typeof bytesOrProblem === "string") problems.push(`${formatValue(path)} ${bytesOrProblem}`);
    else files.set(path, bytesOrProblem);
  }
  return { files, problems };
}

/**
 * Reads every project under a folder, in alphabetical order.
 * @param onSkipped receives a line for each project that is not built yet: it has a recipe and none of its files
 * @throws invalid_project
 */
export async function readProjects(
  folder: string,
  onSkipped: (line: string) => void = () => {},
): Promise<PublishSource[]> {
  const sources: PublishSource[] = [];
  const names = await readdir(folder).catch((error: unknown) => {
    throw publishingErrors.invalidProject(folder, [
      `the folder cannot be read: ${reasonOf(error)}`,
    ]);
  });
  for (const name of names.toSorted()) {
    const projectFolder = join(folder, name);
    if (!(await isFile(join(projectFolder, PROJECT_FILE)))) continue;
    if (await isUnbuiltProject(projectFolder))
      onSkipped(
        `${name} is skipped because its files are missing. Follow ${projectFolder}/${RECIPE_FILE} to make them.`,
      );
    else sources.push(await readProject(projectFolder));
  }
  return sources;
}

async function isUnbuiltProject(folder: string): Promise<boolean> {
  if (!(await isFile(join(folder, RECIPE_FILE)))) return false;
  const paths = listProjectFiles(await readProjectFile(folder));
  return (await Promise.all(paths.map((path) => isFile(join(folder, path))))).every(
    (exists) => !exists,
  );
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

async function readProjectFile(folder: string): Promise<ModelProject> {
  let json: unknown;
  try {
    json = JSON.parse(await readFile(join(folder, PROJECT_FILE), "utf8"));
  } catch (error) {
    throw publishingErrors.invalidProject(folder, [
      `${PROJECT_FILE} cannot be read: ${reasonOf(error)}`,
    ]);
  }
  const parsed = modelProjectSchema.safeParse(json);
  if (!parsed.success)
    throw publishingErrors.invalidProject(
      join(folder, PROJECT_FILE),
      formatZodIssues(parsed.error),
    );
  return parsed.data;
}

/** @returns the file's bytes, or its problem as the predicate of a sentence about the path */
async function readContainedFile(root: string, path: string): Promise<Uint8Array | string> {
  if (isAbsolute(path) || path.includes("\\") || path.includes("\0"))
    return "is not a path relative to the folder with '/' as separator";
  if (normalize(path).split(sep)[0] === "..") return "is outside the folder";
  try {
    const real = await realpath(join(root, path));
    if (!real.startsWith(`${root}${sep}`)) return "is a link to outside the folder";
    const { size } = await stat(real);
    if (size === 0) return "is empty";
    return new Uint8Array(await readFile(real));
  } catch (error) {
    return `cannot be read: ${reasonOf(error)}`;
  }
}

/** Every tier must have as many logits as there are labels. */
function findLabelProblems(
  { labels: path, tiers }: ClassificationProject,
  files: ReadonlyMap<string, Uint8Array>,
): string[] {
  const bytes = files.get(path);
  if (bytes === undefined) return [];
  const parsed = parseLabelFile(bytes);
  if ("problems" in parsed)
    return parsed.problems.map((problem) => `${formatValue(path)} ${problem}`);
  const count = parsed.labels.length;
  return tiers.flatMap(({ id, outputs }) => {
    const width = outputs.find((output) => output.name === LOGITS_OUTPUT)?.shape.at(-1);
    if (width === undefined) return [`tier ${id} has no output named ${LOGITS_OUTPUT}`];
    return width === -1 || width === count
      ? []
      : [`tier ${id} has ${width} logits for ${count} labels`];
  });
}
