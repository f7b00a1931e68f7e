// `edgetier init <name> --task …`: creates a model project with a small working model, to be replaced by the user's own.
// In an installation from npm, it also creates the deployment files around the project.

import { access, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { defineCommand } from "citty";
import { modelNameSchema } from "../../registry/manifest.ts";
import { SAMPLES_FILE } from "../deploy/smoke-test-cases.ts";
import { cliErrors } from "../errors.ts";
import { renderDeploymentFiles } from "../init/deployment-files.ts";
import { renderProjectFiles } from "../init/project-files.ts";
import { INIT_TASKS, createStarter, STARTER_MODEL } from "../init/starters.ts";
import { IS_PACKAGED, MODELS_FOLDER, PROJECT_ROOT } from "../local/paths.ts";
import { jsonArg, printJson, printLine, createProgressPrinter } from "../output.ts";
import { importProject } from "./model-import.ts";

const NAME = "edgetier init";

export const command = defineCommand({
  meta: {
    name: "init",
    description:
      "Create a model project from a template: a small working model, and a guide for replacing it with yours",
  },
  args: {
    name: {
      type: "positional",
      description: "Name of the model; by default the task",
      required: false,
    },
    task: {
      type: "enum",
      options: [...INIT_TASKS],
      default: "text-classification",
      description: "Task of the model",
    },
    ...jsonArg,
  },
  async run({ args }) {
    const name = modelNameSchema.safeParse(args.name ?? args.task);
    if (!name.success)
      throw cliErrors.usage(
        `${JSON.stringify(args.name)} ${name.error.issues[0]?.message ?? "is not a model name"}`,
        NAME,
      );
    const folder = join(MODELS_FOLDER, name.data);
    if (await exists(folder)) throw cliErrors.templateExists(folder);
    const written: string[] = [];
    const writeMissing = async (
      root: string,
      files: ReadonlyMap<string, string | Uint8Array>,
    ): Promise<void> => {
      for (const [path, content] of files) {
        const file = join(root, path);
        if (await exists(file)) continue;
        await mkdir(dirname(file), { recursive: true });
        await writeFile(file, content);
        written.push(file.slice(PROJECT_ROOT.length + 1));
      }
    };
    if (IS_PACKAGED) await writeMissing(PROJECT_ROOT, await renderDeploymentFiles(PROJECT_ROOT));
    const starter = createStarter(args.task);
    await writeMissing(
      folder,
      new Map([...starter.files, ...renderProjectFiles(name.data, args.task, starter)]),
    );
    const options = starter.importOptions.map((option) =>
      option.startsWith("recipe/") ? join(folder, option) : option,
    );
    createProgressPrinter(args.json === true)("checking the model in its serving runtimes");
    const { tried, imported } = await importProject([
      join(folder, STARTER_MODEL),
      "--name",
      name.data,
      "--task",
      args.task,
      "--samples",
      join(folder, SAMPLES_FILE),
      "--out",
      folder,
      ...options,
    ]).catch(async (error: unknown) => {
      await rm(folder, { recursive: true });
      throw error;
    });
    if (args.json === true)
      return printJson({ model: name.data, task: args.task, folder, written, tried });
    for (const path of written) printLine(`created  ${path}`);
    printLine(
      `\n${name.data} ${starter.description}. ${tried.right ?? tried.samples} of ${tried.samples} samples were ${tried.right === undefined ? "answered" : "classified correctly"}, at the ${imported.project.tiers[0]?.place}.`,
    );
  },
});

const exists = async (path: string): Promise<boolean> =>
  await access(path).then(
    () => true,
    () => false,
  );
