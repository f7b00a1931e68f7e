// Dockerfile reader: parses infra/region/Dockerfile, and builds its stages as folders without Docker.
import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { DockerfileParser, type Copy, type Env, type From, type Instruction } from "dockerfile-ast";

export interface Stage {
  readonly name: string | null;
  /** An image or an earlier stage. */
  readonly base: string;
  readonly instructions: readonly Instruction[];
}

/** @param buildArguments arguments of `docker build`, for the names of base images */
export async function readStages(
  path: string,
  buildArguments: Readonly<Record<string, string>> = {},
): Promise<Stage[]> {
  const dockerfile = DockerfileParser.parse(await readFile(path, "utf8"));
  const defaults = dockerfile
    .getInitialARGs()
    .map(
      (argument) =>
        [
          argument.getProperty()?.getName() ?? "",
          argument.getProperty()?.getValue() ?? "",
        ] as const,
    );
  const values = { ...Object.fromEntries(defaults), ...buildArguments };
  const stages: { name: string | null; base: string; instructions: Instruction[] }[] = [];
  for (const instruction of dockerfile.getInstructions()) {
    if (isFrom(instruction)) {
      const base = (instruction.getImage() ?? "").replace(
        /\$\{(\w+)\}/g,
        (_all, name: string) => values[name] ?? "",
      );
      stages.push({ name: instruction.getBuildStage(), base, instructions: [] });
    } else stages.at(-1)?.instructions.push(instruction);
  }
  return stages;
}

const isFrom = (instruction: Instruction): instruction is From =>
  instruction.getKeyword() === "FROM";
const isCopy = (instruction: Instruction): instruction is Copy =>
  instruction.getKeyword() === "COPY";
const isEnv = (instruction: Instruction): instruction is Env => instruction.getKeyword() === "ENV";

/** Default target of a build. */
export function lastStage(stages: readonly Stage[]): Stage {
  const stage = stages.at(-1);
  if (stage === undefined) throw new Error("the Dockerfile has no stage");
  return stage;
}

/** Lists the ancestors of a stage, oldest first, and the stage itself. */
export function stageLineage(stages: readonly Stage[], stage: Stage): Stage[] {
  const parent = stages.find(({ name }) => name === stage.base);
  return [...(parent === undefined ? [] : stageLineage(stages, parent)), stage];
}

/** Arguments of the last instruction with a keyword such as `USER`, with continuation lines joined. */
export function lastInstruction(stages: readonly Stage[], keyword: string): string | undefined {
  return (
    stages
      .flatMap(({ instructions }) => instructions)
      .findLast((instruction) => instruction.getKeyword() === keyword)
      ?.getArgumentsContent() ?? undefined
  );
}

export function readEnvironment(stages: readonly Stage[]): Record<string, string> {
  const properties = stages
    .flatMap(({ instructions }) => instructions)
    .filter(isEnv)
    .flatMap((instruction) => instruction.getProperties());
  return Object.fromEntries(
    properties.map((property) => [property.getName(), property.getValue() ?? ""]),
  );
}

/** Paths that a stage copies from the build context. */
export const contextSources = ({ instructions }: Stage): string[] =>
  instructions
    .filter(isCopy)
    .filter((copyInstruction) => copyInstruction.getFromFlag() === null)
    .flatMap((copyInstruction) => copyInstruction.getArguments().slice(0, -1).map(String));

/**
 * Builds the file system of a stage from its ancestors, its copies, and the steps that `runs` selects.
 * @returns folder that represents `/`
 */
export async function buildStageFolder(
  stages: readonly Stage[],
  stage: Stage,
  options: { context: string; folder: string; runs: (stage: Stage) => boolean },
): Promise<string> {
  const root = await mkdtemp(join(options.folder, "stage-"));
  let workdir = "/";
  for (const ancestor of stageLineage(stages, stage)) {
    for (const instruction of ancestor.instructions) {
      const keyword = instruction.getKeyword();
      if (keyword === "WORKDIR")
        await mkdir(join(root, (workdir = instruction.getArgumentsContent() ?? "/")), {
          recursive: true,
        });
      if (keyword === "RUN" && options.runs(ancestor))
        await promisify(execFile)("sh", ["-c", instruction.getArgumentsContent() ?? ""], {
          cwd: join(root, workdir),
        });
      if (!isCopy(instruction)) continue;
      const names = instruction.getArguments().map(String);
      const to = names.pop() ?? "";
      const from = instruction.getFromFlag()?.getValue();
      const source =
        from === undefined || from === null
          ? options.context
          : await buildStageFolder(stages, findStage(stages, from), options);
      await copy(
        source,
        names,
        join(root, to.startsWith("/") ? "" : workdir, to),
        to.endsWith("/"),
      );
    }
  }
  return root;
}

function findStage(stages: readonly Stage[], name: string): Stage {
  const found = stages.find((stage) => stage.name === name);
  if (found === undefined) throw new Error(`the Dockerfile has no stage "${name}"`);
  return found;
}

/** Copies like COPY: the content of a folder into `to`, and a file to `to` or into it. */
async function copy(
  source: string,
  patterns: readonly string[],
  to: string,
  intoFolder: boolean,
): Promise<void> {
  for (const pattern of patterns) {
    const found = globSync(pattern.replace(/^\//, ""), { cwd: source });
    if (found.length === 0) throw new Error(`COPY: no file matches ${pattern}`);
    for (const path of found)
      await cp(join(source, path), intoFolder ? join(to, basename(path)) : to, {
        recursive: true,
        verbatimSymlinks: true,
      });
  }
}
