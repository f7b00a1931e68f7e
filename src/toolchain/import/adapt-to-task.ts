// Adapts a model to its task, and lists the information that only its author can provide.

import type { PreprocessorConfig } from "../../tasks/task.ts";
import { freezeInitializers } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import { adaptImage, type ImageSize } from "./adapt-image.ts";
import { readDeclaredDims, makeBatchDynamic } from "./adapt-inputs.ts";
import { adaptText } from "./adapt-text.ts";
import {
  findEmbeddingOutput,
  POOLED_OUTPUT_NAMES,
  type EmbeddingOutputOptions,
  type EmbeddingOutput,
} from "./embedding-output.ts";
import { exposeLogits } from "./expose-logits.ts";
import type { ImportProblem } from "./import-problem.ts";
import { readLabelMetadata } from "./label-metadata.ts";

export const IMPORTABLE_TASKS = [
  "text-classification",
  "image-classification",
  "embedding",
  "tensor",
] as const;
export type ImportableTask = (typeof IMPORTABLE_TASKS)[number];

/** Information that only the model's author has. */
export interface TaskOptions {
  readonly task: ImportableTask;
  readonly labels?: readonly string[] | undefined;
  /** Output with the logits, if several outputs are candidates. */
  readonly logitsOutput?: string | undefined;
  readonly text?:
    | { readonly kind: "wordpiece"; readonly artifact: Uint8Array; readonly maxTokens: number }
    | { readonly kind: "hashed-ngrams"; readonly artifact: Uint8Array }
    | undefined;
  readonly embedding?: EmbeddingOutputOptions | undefined;
  readonly image?:
    | {
        readonly mean?: RgbValues | undefined;
        readonly std?: RgbValues | undefined;
        readonly size?: ImageSize | undefined;
        readonly fit: "stretch" | "cover";
      }
    | undefined;
}

export type RgbValues = readonly [number, number, number];

export interface AdaptedModel {
  readonly task: ImportableTask;
  readonly isClassification: boolean;
  readonly labels: readonly string[] | undefined;
  /** Set for a task with its own inputs, if no information is missing. */
  readonly preprocessor: PreprocessorConfig | undefined;
  /** Set for an embedding model, if no information is missing. */
  readonly embeddingOutput?: EmbeddingOutput | undefined;
  /** Whether the original batch size was fixed. */
  readonly hadFixedBatch: boolean;
  readonly notes: readonly string[];
  /** Everything that prevents the import. */
  readonly problems: readonly ImportProblem[];
}

/** Changes the model. */
export function adaptToTask(model: Model, options: TaskOptions): AdaptedModel {
  const { task } = options;
  if (task === "tensor")
    return {
      task,
      isClassification: false,
      labels: options.labels,
      preprocessor: undefined,
      hadFixedBatch: false,
      notes: [],
      problems: [],
    };
  const notes: string[] = [];
  const problems: ImportProblem[] = [];
  const collect = (result: readonly string[] | ImportProblem) =>
    "problem" in result ? void problems.push(result) : void notes.push(...result);

  const weightInputCount = freezeInitializers(model);
  if (weightInputCount > 0)
    notes.push(`${weightInputCount} of its inputs are weights and became constants`);
  const taskResult =
    task === "embedding"
      ? { embeddingOutput: resolveEmbeddingOutput(model, options, collect) }
      : { labels: resolveLabels(model, options, collect) };
  const preprocessor =
    task === "image-classification"
      ? createImagePreprocessorConfig(model, options, collect)
      : createTextPreprocessorConfig(model, options, collect);
  const hadFixedBatch = hasFixedBatch(model);
  if (hadFixedBatch) {
    makeBatchDynamic(model);
    notes.push("its batch size was fixed and is now dynamic");
  }
  return {
    task,
    isClassification: task !== "embedding",
    labels: undefined,
    ...taskResult,
    preprocessor,
    hadFixedBatch,
    notes,
    problems,
  };
}

type CollectResult = (result: readonly string[] | ImportProblem) => void;

function resolveLabels(
  model: Model,
  { labels: configuredLabels, logitsOutput }: TaskOptions,
  collect: CollectResult,
): readonly string[] | undefined {
  collect(exposeLogits(model, logitsOutput));
  const labels = configuredLabels ?? readLabelMetadata(model);
  if (labels === undefined)
    collect({
      problem: "its labels are unknown",
      remedy:
        "Give them with --labels, as a JSON array or one per line, in the order of the logits.",
    });
  else if (configuredLabels === undefined)
    collect([
      `${labels.length} labels are taken from its metadata, starting with ${JSON.stringify(labels[0])}`,
    ]);
  return labels;
}

function resolveEmbeddingOutput(
  model: Model,
  { embedding = {} }: TaskOptions,
  collect: CollectResult,
): EmbeddingOutput | undefined {
  const output = findEmbeddingOutput(model, embedding);
  if (!("problem" in output)) return output;
  collect(output);
  return undefined;
}

function createTextPreprocessorConfig(
  model: Model,
  { task, text }: TaskOptions,
  collect: CollectResult,
): PreprocessorConfig | undefined {
  if (text === undefined || (task === "embedding" && text.kind !== "wordpiece")) {
    collect({
      problem: "its text preprocessing is unknown",
      remedy: `Give its tokenizer.json with --tokenizer${task === "embedding" ? "" : ", or the settings of hashed n-grams with --features"}.`,
    });
    return undefined;
  }
  collect(adaptText(model, text.kind));
  return text;
}

function createImagePreprocessorConfig(
  model: Model,
  { image }: TaskOptions,
  collect: CollectResult,
): PreprocessorConfig | undefined {
  const adapted = adaptImage(model, image?.size);
  if ("problem" in adapted) collect(adapted);
  else collect(adapted.notes);
  if (image?.mean === undefined || image.std === undefined) {
    collect({
      problem: "its pixel normalization is unknown",
      remedy:
        "Give the mean and standard deviation of each channel as in training, for values from 0 to 1: --mean r,g,b --std r,g,b.",
    });
    return undefined;
  }
  if ("problem" in adapted) return undefined;
  const { width, height } = adapted;
  return {
    kind: "image",
    width,
    height,
    layout: "NCHW",
    channels: "RGB",
    resize: "bilinear",
    fit: image.fit,
    mean: [...image.mean],
    std: [...image.std],
  };
}

/** Checks all inputs, because a request's inputs share one batch size. */
const hasFixedBatch = ({ graph }: Model): boolean =>
  graph.input.some((input) => readDeclaredDims(input)?.[0] !== undefined);

/** Infers the task from inputs and outputs, if the user does not give it. */
export function inferTask({ graph }: Model): ImportableTask {
  const weightNames = new Set(graph.initializer.map(({ name }) => name));
  const inputDims = graph.input
    .filter(({ name }) => !weightNames.has(name))
    .map((input) => readDeclaredDims(input));
  const hasMatrixOutput = graph.output.some((output) => readDeclaredDims(output)?.length === 2);
  if (graph.input.some(({ name }) => name === "input_ids") && hasMatrixOutput)
    return graph.output.some(({ name }) => POOLED_OUTPUT_NAMES.includes(name))
      ? "embedding"
      : "text-classification";
  const [only, ...others] = inputDims;
  if (
    others.length === 0 &&
    only?.length === 4 &&
    (only[1] === 3 || only[3] === 3) &&
    hasMatrixOutput
  )
    return "image-classification";
  return "tensor";
}
