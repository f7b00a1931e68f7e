// Reads a model project folder: model.json and the files it names, which must lie inside the folder. All problems are
// reported together.

import { publishingErrors } from "../registry/publishing-errors.ts";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { isAbsolute, join, normalize, sep } from "node:path";
import { LOGITS_OUTPUT } from "../cascade/calibration.ts";
import { formatZodIssues } from "../core/config.ts";
import { reasonOf, shown } from "../core/errors.ts";
import {
  type ClassificationProject,
  isClassificationProject,
  modelProjectSchema,
  type ModelProject,
} from "../registry/manifest.ts";
import { parseLabelFile } from "../tasks/labels.ts";
import { listProjectFiles, type PublishSource } from "../registry/publish.ts";
import { dropStaleReport } from "./stale-report.ts";

export const PROJECT_FILE = "model.json";
const RECIPE_FILE = "recipe/README.md";

/**
 * @param folder of the project; `model.json` lies in it.
 * @returns the project and the bytes of every file it names, by the path that names it.
 * @throws invalid_project naming every problem.
 */
export async function readProject(folder: string): Promise<PublishSource> {
  const project = await readProjectFile(folder);
  const { files, problems } = await readFiles(folder, listProjectFiles(project));
  if (isClassificationProject(project)) problems.push(...findLabelProblems(project, files));
  if (problems.length > 0) throw publishingErrors.invalidProject(folder, problems);
  return { project: dropStaleReport(project, files), files };
}

/** Further files of a project's folder. @throws invalid_project naming every problem */
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
    const read = await readContainedFile(root, path);
    if (typeof read === "string") problems.push(`${shown(path)} ${read}`);
    else files.set(path, read);
  }
  return { files, problems };
}

/**
 * Every project under a folder, in the order of their names.
 * @param onLeftOut is told of each that is not read, since none of its files is there and its recipe has yet to make them
 * @throws invalid_project
 */
export async function readProjects(
  folder: string,
  onLeftOut: (line: string) => void = () => {},
): Promise<PublishSource[]> {
  const sources: PublishSource[] = [];
  const names = await readdir(folder).catch((error: unknown) => {
    throw publishingErrors.invalidProject(folder, [
      `the folder cannot be read: ${reasonOf(error)}`,
    ]);
  });
  for (const name of names.toSorted()) {
    const project = join(folder, name);
    if (!(await isFile(join(project, PROJECT_FILE)))) continue;
    if (await isUnbuiltProject(project))
      onLeftOut(
        `${name} is left out: its files are not here, and ${project}/${RECIPE_FILE} makes them`,
      );
    else sources.push(await readProject(project));
  }
  return sources;
}

async function isUnbuiltProject(folder: string): Promise<boolean> {
  if (!(await isFile(join(folder, RECIPE_FILE)))) return false;
  const paths = listProjectFiles(await readProjectFile(folder));
  return (await Promise.all(paths.map((path) => isFile(join(folder, path))))).every(
    (isThere) => !isThere,
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

/** The file's bytes, or what is wrong with it. */
async function readContainedFile(root: string, path: string): Promise<Uint8Array | string> {
  if (isAbsolute(path) || path.includes("\\") || path.includes("\0"))
    return "must be a path relative to the folder, with '/' between its parts";
  if (normalize(path).split(sep)[0] === "..") return "leaves the folder";
  try {
    const real = await realpath(join(root, path)); // where links lead
    if (!real.startsWith(`${root}${sep}`)) return "is a link that leaves the folder";
    const { size } = await stat(real);
    if (size === 0) return "is empty";
    return new Uint8Array(await readFile(real));
  } catch (error) {
    return `cannot be read: ${reasonOf(error)}`;
  }
}

/** The labels must be what every tier's `logits` has room for. */
function findLabelProblems(
  { labels: path, tiers }: ClassificationProject,
  files: ReadonlyMap<string, Uint8Array>,
): string[] {
  const bytes = files.get(path);
  if (bytes === undefined) return [];
  const read = parseLabelFile(bytes);
  if ("problems" in read) return read.problems.map((problem) => `${shown(path)} ${problem}`);
  const count = read.labels.length;
  return tiers.flatMap(({ id, outputs }) => {
    const width = outputs.find((output) => output.name === LOGITS_OUTPUT)?.shape.at(-1);
    if (width === undefined) return [`tier ${id} has no output called ${LOGITS_OUTPUT}`];
    return width === -1 || width === count
      ? []
      : [`tier ${id} gives ${width} logits for ${count} labels`];
  });
}
