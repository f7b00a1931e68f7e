// Project files: renders the recipe, model card, build plan and .gitignore of a new model project.

import { CLI_INVOCATION } from "../command-guides.ts";
import { type InitTask, type Starter, STARTER_MODEL } from "./starters.ts";

/**
 * Renders the `model import` command for a file of the user's own.
 * @param folder the project's folder, as commands name it
 */
export const renderImportCommand = (
  file: string,
  name: string,
  task: InitTask,
  folder: string,
  options: readonly string[],
): string =>
  [
    CLI_INVOCATION,
    "model import",
    file,
    "--name",
    name,
    "--task",
    task,
    "--samples",
    `${folder}/samples/samples.jsonl`,
    "--out",
    folder,
    "--replace",
    ...options.map((option) => (option.startsWith("recipe/") ? `${folder}/${option}` : option)),
  ].join(" ");

const INPUT_REQUIREMENTS: Readonly<Record<InitTask, string>> = {
  "text-classification":
    "`input_ids` and `attention_mask` (INT64, with a WordPiece `tokenizer.json`: `--tokenizer`) or `ids` (INT32, hashed n-grams: `--features`), and returns logits, one per line of `labels.txt`",
  "image-classification":
    "pixels as FP32 [batch, 3, height, width] or [batch, height, width, 3], normalized by `--mean` and `--std`, and returns logits, one per line of `labels.txt`",
  embedding:
    "`input_ids` and `attention_mask` (INT64, with a WordPiece `tokenizer.json`), and returns a vector per text, or one per token (`--pooling mean` or `cls`)",
  tensor: "any tensors, and returns any",
};

const SAMPLE_FORMATS: Readonly<Record<InitTask, string>> = {
  "text-classification": '`{"text": "…", "label": "…"}`',
  "image-classification": '`{"file": "photo.jpg", "label": "…"}`, the file in the same folder',
  embedding: '`{"text": "…", "label": ""}`',
  tensor: '`{"inputs": [{"name", "shape", "data"}], "outputs": […]}`',
};

/** Renders the files by path in the project. */
export function renderProjectFiles(
  name: string,
  task: InitTask,
  { description, importOptions }: Starter,
): ReadonlyMap<string, string> {
  const folder = `models/${name}`;
  return new Map([
    ["recipe/README.md", renderRecipe({ name, task, folder, description, importOptions })],
    ["CARD.md", renderCard(name, description)],
    [".gitignore", "# Downloads and intermediate files of the recipe.\nrecipe/data/\n*.part\n"],
    ...(task === "text-classification" || task === "image-classification"
      ? [["build.json", `${JSON.stringify(BUILD_PLAN, undefined, 2)}\n`] as const]
      : []),
  ]);
}

/** Two candidates: the original graph, and an 8-bit one if it loses at most half a point of accuracy. */
const BUILD_PLAN = {
  schemaVersion: 1,
  tiers: [
    {
      tier: "edge-fp32",
      source: "artifacts/model.onnx",
      bounds: { maxLossPoints: 0.5 },
      prefer: "bytes",
      candidates: [
        { name: "as-trained", source: "artifacts/model.onnx" },
        { name: "dynamic", steps: [{ kind: "quantize", mode: "dynamic" }] },
      ],
    },
  ],
};

interface RecipeFacts {
  readonly name: string;
  readonly task: InitTask;
  readonly folder: string;
  readonly description: string;
  readonly importOptions: readonly string[];
}

const renderRecipe = ({
  name,
  task,
  folder,
  description,
  importOptions,
}: RecipeFacts): string => `# Origin of ${name}

\`starter.onnx\` is a placeholder for your model: it ${description}. It was imported with

    ${renderImportCommand(`${folder}/${STARTER_MODEL}`, name, task, folder, importOptions)}

## Your own model

1. Export it to ONNX. It must accept ${INPUT_REQUIREMENTS[task]}. The first dimension is the batch, and must be dynamic.
2. Copy it and its files into this folder${
  importOptions.length === 0
    ? ""
    : ` (${importOptions
        .filter((option) => option.startsWith("recipe/"))
        .map((option) => `\`${option.replace("recipe/", "")}\``)
        .join(", ")} are the starter's)`
}.
3. Replace \`../samples/samples.jsonl\`, one sample per line: ${SAMPLE_FORMATS[task]}. The import checks the model with them, and every deployment tests the first five.
4. Run the command above with your file in place of \`${STARTER_MODEL}\`. It reports its changes, or every problem that prevents serving.
5. Run \`${CLI_INVOCATION} start\` to serve it on this machine.

Then document here how you created the file: data, seed, versions, commands.
`;

const renderCard = (name: string, description: string): string => `# Model card: ${name}

It ${description}. (This describes the starter of \`edgetier init\`; replace it with a description of your model.)

## Intended use
Describe its users and inputs, and uses to avoid.

## Data
Describe the training and evaluation data and their license.

## Figures
Run \`${CLI_INVOCATION} model eval models/${name} --samples <samples>\` to print them.

## Limits
Describe its known errors.
`;
