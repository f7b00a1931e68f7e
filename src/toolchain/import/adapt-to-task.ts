// Makes a model fit its task, and says what only its maker knows and has not said.

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
import { readLabelMetadata } from "./label-metadata.ts";
import { exposeLogits } from "./expose-logits.ts";
import type { ImportProblem } from "./import-problem.ts";

export const IMPORTABLE_TASKS = [
  "text-classification",
  "image-classification",
  "embedding",
  "tensor",
] as const;
export type ImportableTask = (typeof IMPORTABLE_TASKS)[number];

/** What only the model's maker knows. */
export interface TaskOptions {
  readonly task: ImportableTask;
  readonly labels?: readonly string[] | undefined;
  /** The output that gives the logits, where several might. */
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
  /** Of a task with inputs of its own, once nothing is missing. */
  readonly preprocessor: PreprocessorConfig | undefined;
  /** Of an embedding model, likewise. */
  readonly embeddingOutput?: EmbeddingOutput | undefined;
  /** Whether the batch was fixed before. */
  readonly hadFixedBatch: boolean;
  readonly notes: readonly string[];
  /** All that keeps it from being imported. */
  readonly problems: readonly ImportProblem[];
}

/** Changes the model. */
export function adaptToTask(model: Model, choice: TaskOptions): AdaptedModel {
  const { task } = choice;
  if (task === "tensor")
    return {
      task,
      isClassification: false,
      labels: choice.labels,
      preprocessor: undefined,
      hadFixedBatch: false,
      notes: [],
      problems: [],
    };
  const notes: string[] = [];
  const problems: ImportProblem[] = [];
  const take = (result: readonly string[] | ImportProblem) =>
    "problem" in result ? void problems.push(result) : void notes.push(...result);

  const listed = freezeInitializers(model);
  if (listed > 0) notes.push(`${listed} of its inputs are weights, and no inputs any more`);
  const outcome =
    task === "embedding"
      ? { embeddingOutput: resolveEmbeddingOutput(model, choice, take) }
      : { labels: resolveLabels(model, choice, take) };
  const preprocessor =
    task === "image-classification"
      ? createImagePreprocessorConfig(model, choice, take)
      : createTextPreprocessorConfig(model, choice, take);
  const batchOpened = hasFixedBatch(model);
  if (batchOpened) {
    makeBatchDynamic(model);
    notes.push("its batch was of a fixed size, and may be any now");
  }
  return {
    task,
    isClassification: task !== "embedding",
    labels: undefined,
    ...outcome,
    preprocessor,
    hadFixedBatch: batchOpened,
    notes,
    problems,
  };
}

type CollectResult = (result: readonly string[] | ImportProblem) => void;

function resolveLabels(
  model: Model,
  { labels: given, logitsOutput: logits }: TaskOptions,
  take: CollectResult,
): readonly string[] | undefined {
  take(exposeLogits(model, logits));
  const labels = given ?? readLabelMetadata(model);
  if (labels === undefined)
    take({
      problem: "its labels are not known",
      remedy: "Give them with --labels, a JSON array or one a line, in the order of the logits.",
    });
  else if (given === undefined)
    take([
      `${labels.length} labels are taken from its metadata, ${JSON.stringify(labels[0])} first`,
    ]);
  return labels;
}

function resolveEmbeddingOutput(
  model: Model,
  { embedding = {} }: TaskOptions,
  take: CollectResult,
): EmbeddingOutput | undefined {
  const found = findEmbeddingOutput(model, embedding);
  if (!("problem" in found)) return found;
  take(found);
  return undefined;
}

function createTextPreprocessorConfig(
  model: Model,
  { task, text }: TaskOptions,
  take: CollectResult,
): PreprocessorConfig | undefined {
  if (text === undefined || (task === "embedding" && text.kind !== "wordpiece")) {
    take({
      problem: "it is not known how a text becomes its input",
      remedy: `Give its tokenizer.json with --tokenizer${task === "embedding" ? "" : ", or the settings of hashed n-grams with --features"}.`,
    });
    return undefined;
  }
  take(adaptText(model, text.kind));
  return text;
}

function createImagePreprocessorConfig(
  model: Model,
  { image }: TaskOptions,
  take: CollectResult,
): PreprocessorConfig | undefined {
  const adapted = adaptImage(model, image?.size);
  if ("problem" in adapted) take(adapted);
  else take(adapted.notes);
  if (image?.mean === undefined || image.std === undefined) {
    take({
      problem: "it is not known how its pixels are normalised",
      remedy:
        "Give mean and standard deviation of each channel as in training, of values from 0 to 1: --mean r,g,b --std r,g,b.",
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

/** Of any input: several of a request's inputs could not share a run. */
const hasFixedBatch = ({ graph }: Model): boolean =>
  graph.input.some((input) => readDeclaredDims(input)?.[0] !== undefined);

/** By its inputs and outputs, where nobody says it. */
export function inferTask({ graph }: Model): ImportableTask {
  const weights = new Set(graph.initializer.map(({ name }) => name));
  const ranks = graph.input
    .filter(({ name }) => !weights.has(name))
    .map((input) => readDeclaredDims(input));
  const givesRows = graph.output.some((output) => readDeclaredDims(output)?.length === 2);
  if (graph.input.some(({ name }) => name === "input_ids") && givesRows)
    return graph.output.some(({ name }) => POOLED_OUTPUT_NAMES.includes(name))
      ? "embedding"
      : "text-classification";
  const [only, ...others] = ranks;
  if (others.length === 0 && only?.length === 4 && (only[1] === 3 || only[3] === 3) && givesRows)
    return "image-classification";
  return "tensor";
}
