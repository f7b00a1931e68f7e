// `edgetier model import <file.onnx>`: creates a model project from an ONNX model and checks it in its serving runtimes.

import { basename, join } from "node:path";
import { type ArgsDef, defineCommand, parseArgs } from "citty";
import { modelNameSchema } from "../../registry/manifest.ts";
import { createLazyImageCodecs } from "../../runtime/native/image-codecs.ts";
import { createImageDecoder } from "../../tasks/image/image-decoder.ts";
import { readDeploymentConfig } from "../../toolchain/deployment-config.ts";
import { createNodeRunner } from "../../toolchain/evaluate/node-runner.ts";
import type { Runner } from "../../toolchain/evaluate/runner.ts";
import { IMPORTABLE_TASKS } from "../../toolchain/import/adapt-to-task.ts";
import { POOLINGS } from "../../toolchain/import/embedding-output.ts";
import {
  type ImportResult,
  importModel,
  PLACE_CHOICES,
} from "../../toolchain/import/import-model.ts";
import { createImportSamples, countCorrect } from "../../toolchain/import/import-samples.ts";
import { readModelFile } from "../../toolchain/import/read-model-file.ts";
import { writeProject } from "../../toolchain/import/write-project.ts";
import { sha256HexSync } from "../../toolchain/sha256-sync.ts";
import { cliErrors } from "../errors.ts";
import { createProgressLine } from "../evaluation-runners.ts";
import { ENGINE_FOLDER, MODELS_FOLDER, PROJECT_ROOT } from "../local/paths.ts";
import {
  formatBytes,
  jsonArg,
  printJson,
  printLine,
  printWarning,
  renderTable,
} from "../output.ts";
import { taskArgs, readTaskChoice } from "./import-args.ts";
import { parseCount } from "./samples-args.ts";

const NAME = "edgetier model import";
const STEPS = 3;

const importArgs = {
  file: {
    type: "positional",
    description: "ONNX file; files with external data must be in the same folder",
    required: true,
  },
  task: {
    type: "enum",
    options: [...IMPORTABLE_TASKS],
    description: "Task of the model; by default inferred from its inputs and outputs",
  },
  samples: {
    type: "string",
    valueHint: "path",
    description:
      'Inputs for the check: labeled texts or images as for `model eval`; for tensors a file with one {"inputs": [{"name", "shape", "data"}]} per line, or a folder with input_0.pb and so on',
  },
  name: {
    type: "string",
    valueHint: "name",
    description: "Name of the model; by default the file's name",
  },
  out: {
    type: "string",
    valueHint: "folder",
    description: "Output folder; by default models/<name>",
  },
  replace: { type: "boolean", description: "Overwrite an existing project" },
  place: {
    type: "enum",
    options: [...PLACE_CHOICES],
    default: "auto",
    description: "Place that serves the model; auto is the edge if possible, else a region",
  },
  "deadline-ms": {
    type: "string",
    valueHint: "ms",
    description: "Default deadline of a request",
    default: "1000",
  },
  ...taskArgs,
  pooling: {
    type: "enum",
    options: [...POOLINGS],
    description: "Embeddings: pooling of token vectors, if the graph does not pool them",
  },
  fit: {
    type: "enum",
    options: ["stretch", "cover"],
    default: "stretch",
    description:
      "Images: stretch the whole image, or crop the largest centered part with the right aspect ratio",
  },
  ...jsonArg,
} as const satisfies ArgsDef;

export const command = defineCommand({
  meta: {
    name: "import",
    description: "Create a model project from an ONNX file, after a check in its serving runtimes",
  },
  args: importArgs,
  async run({ args, rawArgs }) {
    const { folder, imported, dataFiles, tried } = await importProject(rawArgs);
    const { project, notes, missing, notAtTheEdge } = imported;
    if (args.json) printJson({ folder, project, dataFiles, notes, missing, notAtTheEdge, tried });
    else printLine(summary(folder, imported, dataFiles, tried));
  },
});

interface ImportedProject {
  readonly folder: string;
  readonly imported: ImportResult;
  readonly dataFiles: readonly string[];
  readonly tried: ImportCheck;
}

/**
 * Imports an ONNX model as a project.
 * @param options arguments as on the command line of `model import`
 */
export async function importProject(options: readonly string[]): Promise<ImportedProject> {
  const args = parseArgs<typeof importArgs>([...options], importArgs);
  const name = resolveModelName(args.name, args.file);
  const { model, bytes, dataFiles } = await readModelFile(args.file);
  const task = await readTaskChoice(args, model, NAME);
  const { sessionBudgetBytes } = await readDeploymentConfig(PROJECT_ROOT, printWarning);
  const progress = createProgressLine();
  let step = 0;
  const request = {
    model,
    file: basename(args.file),
    sha256: sha256HexSync(bytes),
    name,
    task,
    place: args.place,
    deadlineMs: parseCount("--deadline-ms", args["deadline-ms"], NAME) ?? 1_000,
  };
  const samples = createImportSamples(args.samples, createImageTools);
  const imported = await withEdgeOnDemand((edge) =>
    importModel(request, {
      region: createNodeRunner(),
      openEdge: edge,
      sessionBudgetBytes,
      loadSamples: samples.load,
      onProgress: (activity) => progress.show(activity, ++step, STEPS),
    }),
  );
  progress.clear();
  const folder = args.out ?? join(MODELS_FOLDER, name);
  await writeProject(folder, imported.project, imported.files, { replace: args.replace === true });
  return {
    folder,
    imported,
    dataFiles,
    tried: {
      samples: imported.sampleOutputs.length,
      madeUp: samples.areGenerated(),
      right: countCorrect(imported, samples.labels()),
    },
  };
}

/** Runs `work` with a function that starts workerd on its first call, and stops it afterwards. */
async function withEdgeOnDemand<Result>(
  work: (edge: () => Promise<Runner>) => Promise<Result>,
): Promise<Result> {
  let edge: Promise<Runner> | undefined;
  try {
    return await work(() => (edge ??= startEdgeRunner()));
  } finally {
    // A failed start has already been reported to its caller.
    await edge?.then(
      (runner) => runner.close(),
      () => {},
    );
  }
}

async function startEdgeRunner(): Promise<Runner> {
  const [{ prepareEngine }, { createWorkerdRunner }] = await Promise.all([
    import("../../toolchain/engine/prepare-engine.ts"),
    import("../../toolchain/evaluate/harness/workerd-runner.ts"),
  ]);
  const { sha256 } = await prepareEngine({ outDir: ENGINE_FOLDER });
  return await createWorkerdRunner({ engineFolder: ENGINE_FOLDER, engineSha256: sha256 });
}

/** Creates a decoder with memory for every image size that a manifest can allow. */
const createImageTools = () => ({
  imageDecoder: createImageDecoder({
    modules: createLazyImageCodecs(),
    maxMemoryBytes: 256 * 1024 * 1024,
  }),
});

/** Returns the given name, or derives one from the file's name. @throws usage */
function resolveModelName(given: string | undefined, file: string): string {
  const name =
    given ??
    basename(file)
      .replace(/\.onnx$/i, "")
      .toLowerCase()
      .replace(/[^a-z0-9._-]+/g, "-")
      .replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, "");
  const parsed = modelNameSchema.safeParse(name);
  if (parsed.success) return parsed.data;
  throw cliErrors.usage(
    `${given === undefined ? `the model name ${JSON.stringify(name)}, derived from the file's name,` : `--name ${JSON.stringify(given)}`} ${parsed.error.issues[0]?.message ?? "is not a model name"}`,
    NAME,
  );
}

interface ImportCheck {
  readonly samples: number;
  readonly madeUp: boolean;
  /** Number of samples with the right label. Undefined if the samples have no labels. */
  readonly right: number | undefined;
}

function summary(
  folder: string,
  { project, notes, missing, notAtTheEdge, files }: ImportResult,
  dataFiles: readonly string[],
  { samples, madeUp, right }: ImportCheck,
): string {
  const [tier] = project.tiers;
  const formatSpecs = (
    specs:
      | readonly {
          readonly name: string;
          readonly datatype: string;
          readonly shape: readonly number[];
        }[]
      | undefined,
  ) =>
    (specs ?? [])
      .map(
        ({ name, datatype, shape: sizes }) =>
          `${name} ${datatype} [${sizes.map((size) => (size === -1 ? "?" : size)).join(", ")}]`,
      )
      .join(", ");
  const facts = [
    ["model", project.model],
    ["task", project.task],
    [
      "tier",
      `${tier?.id} at the ${tier?.place}, ${formatBytes(files.get(tier?.graph ?? "")?.byteLength ?? 0)}`,
    ],
    ["inputs", formatSpecs(tier?.inputs)],
    ["outputs", formatSpecs(tier?.outputs)],
    [
      "checked with",
      `${samples} ${madeUp ? "generated inputs" : "samples"}${right === undefined ? "" : `, ${right} classified correctly`}`,
    ],
    ...(dataFiles.length === 0 ? [] : [["external data", dataFiles.join(", ")]]),
  ];
  const list = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [`${title}\n${lines.map((line) => `  - ${line}`).join("\n")}`];
  return [
    renderTable(facts),
    ...list("Notes:", [
      ...notes,
      ...(notAtTheEdge === null
        ? []
        : [`A region serves the model, because the edge cannot: ${notAtTheEdge}`]),
    ]),
    ...list("Still missing:", missing),
    `Written to ${folder}.`,
  ].join("\n\n");
}
