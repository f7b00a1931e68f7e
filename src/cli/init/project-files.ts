// What a new model project has beside its model: where the model comes from, how it is replaced, its card, its plan.

import { CLI_INVOCATION } from "../command-guides.ts";
import { type InitTask, type Starter, STARTER_MODEL } from "./starters.ts";

/** As a user would call it for a file of their own. @param folder of the project, as commands name it */
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
    "`input_ids` and `attention_mask` (INT64, with a WordPiece `tokenizer.json`: `--tokenizer`) or `ids` (INT32, hashed n-grams: `--features`), and gives logits, one for each line of `labels.txt`",
  "image-classification":
    "pixels as FP32 [batch, 3, height, width] or [batch, height, width, 3], normalised by `--mean` and `--std`, and gives logits, one for each line of `labels.txt`",
  embedding:
    "`input_ids` and `attention_mask` (INT64, with a WordPiece `tokenizer.json`), and gives a vector for each text, or one for each token (`--pooling mean` or `cls`)",
  tensor: "any tensors, and gives any",
};

const SAMPLE_FORMATS: Readonly<Record<InitTask, string>> = {
  "text-classification": '`{"text": "…", "label": "…"}`',
  "image-classification": '`{"file": "photo.jpg", "label": "…"}`, the file beside it',
  embedding: '`{"text": "…", "label": ""}`',
  tensor: '`{"inputs": [{"name", "shape", "data"}], "outputs": […]}`',
};

/** By their paths in the project. */
export function renderProjectFiles(
  name: string,
  task: InitTask,
  { description: about, importOptions }: Starter,
): ReadonlyMap<string, string> {
  const folder = `models/${name}`;
  return new Map([
    ["recipe/README.md", recipe(name, task, folder, about, importOptions)],
    ["CARD.md", card(name, about)],
    [".gitignore", "# What the recipe downloads or makes on its way.\nrecipe/data/\n*.part\n"],
    ...(task === "text-classification" || task === "image-classification"
      ? [["build.json", `${JSON.stringify(BUILD_PLAN, undefined, 2)}\n`] as const]
      : []),
  ]);
}

/** Two candidates: as it is, and in 8 bits where that costs next to nothing. */
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

const recipe = (
  name: string,
  task: InitTask,
  folder: string,
  about: string,
  options: readonly string[],
): string => `# Where ${name} comes from

\`starter.onnx\` stands in for your model: it ${about}. It was imported with

    ${renderImportCommand(`${folder}/${STARTER_MODEL}`, name, task, folder, options)}

## Your own model

1. Export it to ONNX. It takes ${INPUT_REQUIREMENTS[task]}. The first dimension is the batch, and variable.
2. Put it, and what goes with it, into this folder${
  options.length === 0
    ? ""
    : ` (${options
        .filter((option) => option.startsWith("recipe/"))
        .map((option) => `\`${option.replace("recipe/", "")}\``)
        .join(", ")} now are the starter's)`
}.
3. Replace \`../samples/samples.jsonl\`, one sample a line: ${SAMPLE_FORMATS[task]}. Import tries the model with them, and every deployment asks the first five.
4. Run the command above with your file in place of \`${STARTER_MODEL}\`. It says what it changed, or all that keeps the model from being served.
5. \`${CLI_INVOCATION} start\` serves it on this machine.

Then write down here how the file was made: data, seed, versions, commands.
`;

const card = (name: string, about: string): string => `# Model card: ${name}

It ${about}. (The starter of \`edgetier init\`: replace this with what yours does.)

## Intended use
Who asks it what, and what it must not be used for.

## Data
What it was trained and judged on, and under which licence.

## Figures
\`${CLI_INVOCATION} model eval models/${name} --samples <samples>\` prints them.

## Limits
What it is known to get wrong.
`;
