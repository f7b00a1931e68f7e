// Reads infra/region/Dockerfile, and lays its stages out in folders as `docker build` would, without Docker.
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

/** @param buildArguments of `docker build`, for what stages are made from */
export async function readStages(
  path: string,
  buildArguments: Readonly<Record<string, string>> = {},
): Promise<Stage[]> {
  const dockerfile = DockerfileParser.parse(await readFile(path, "utf8"));
  const defaults = dockerfile
    .getInitialARGs()
    .map(
      (one) => [one.getProperty()?.getName() ?? "", one.getProperty()?.getValue() ?? ""] as const,
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

const isFrom = (one: Instruction): one is From => one.getKeyword() === "FROM";
const isCopy = (one: Instruction): one is Copy => one.getKeyword() === "COPY";
const isEnv = (one: Instruction): one is Env => one.getKeyword() === "ENV";

/** The stage that a build makes where it is told no other. */
export function lastStage(stages: readonly Stage[]): Stage {
  const stage = stages.at(-1);
  if (stage === undefined) throw new Error("no stage");
  return stage;
}

/** A stage after those that it is made from, as far as they are stages. */
export function stageLineage(stages: readonly Stage[], stage: Stage): Stage[] {
  const parent = stages.find((one) => one.name === stage.base);
  return [...(parent === undefined ? [] : stageLineage(stages, parent)), stage];
}

/** The last instruction of a kind, such as `USER`, with the line's continuations joined. */
export function lastInstruction(stages: readonly Stage[], keyword: string): string | undefined {
  return (
    stages
      .flatMap((one) => one.instructions)
      .findLast((one) => one.getKeyword() === keyword)
      ?.getArgumentsContent() ?? undefined
  );
}

export function readEnvironment(stages: readonly Stage[]): Record<string, string> {
  const properties = stages
    .flatMap((one) => one.instructions)
    .filter(isEnv)
    .flatMap((one) => one.getProperties());
  return Object.fromEntries(properties.map((one) => [one.getName(), one.getValue() ?? ""]));
}

/** What a stage copies from the build's context. */
export const contextSources = ({ instructions }: Stage): string[] =>
  instructions
    .filter(isCopy)
    .filter((one) => one.getFromFlag() === null)
    .flatMap((one) => one.getArguments().slice(0, -1).map(String));

/**
 * Makes a stage's folder out of its parents, its copies, and its steps in the working directory where `runs` says so.
 * @returns the folder that stands for `/`
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
  const found = stages.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no stage "${name}"`);
  return found;
}

/** As COPY: a folder's content goes into `to`; a file becomes `to`, or goes into it. */
async function copy(
  source: string,
  patterns: readonly string[],
  to: string,
  intoFolder: boolean,
): Promise<void> {
  for (const pattern of patterns) {
    const found = globSync(pattern.replace(/^\//, ""), { cwd: source });
    if (found.length === 0) throw new Error(`COPY: there is no ${pattern}`);
    for (const path of found)
      await cp(join(source, path), intoFolder ? join(to, basename(path)) : to, {
        recursive: true,
        verbatimSymlinks: true,
      });
  }
}
