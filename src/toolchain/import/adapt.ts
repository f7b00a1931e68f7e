// Makes a model fit its task, and says what only its maker knows and has not said.

import type { PreprocessorConfig } from "../../tasks/task.ts";
import { freezeInitializers } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import { adaptImage, type ImageSize } from "./adapt-image.ts";
import { dimsOf, openBatch } from "./adapt-inputs.ts";
import { adaptText } from "./adapt-text.ts";
import { findVectors, POOLED, type VectorChoice, type VectorOutput } from "./adapt-vectors.ts";
import { labelsInModel } from "./labels-in-model.ts";
import { nameLogits } from "./logits.ts";
import type { Problem } from "./problem.ts";

export const IMPORTED_TASKS = [
  "text-classification",
  "image-classification",
  "embedding",
  "tensor",
] as const;
export type ImportedTask = (typeof IMPORTED_TASKS)[number];

/** What only the model's maker knows. */
export interface TaskChoice {
  readonly task: ImportedTask;
  readonly labels?: readonly string[] | undefined;
  /** The output that gives the logits, where several might. */
  readonly logits?: string | undefined;
  readonly text?:
    | { readonly kind: "wordpiece"; readonly artifact: Uint8Array; readonly maxTokens: number }
    | { readonly kind: "hashed-ngrams"; readonly artifact: Uint8Array }
    | undefined;
  readonly vectors?: VectorChoice | undefined;
  readonly image?:
    | {
        readonly mean?: RgbNumbers | undefined;
        readonly std?: RgbNumbers | undefined;
        readonly size?: ImageSize | undefined;
        readonly fit: "stretch" | "cover";
      }
    | undefined;
}

export type RgbNumbers = readonly [number, number, number];

export interface Adapted {
  readonly task: ImportedTask;
  readonly classification: boolean;
  readonly labels: readonly string[] | undefined;
  /** Of a task with inputs of its own, once nothing is missing. */
  readonly preprocessor: PreprocessorConfig | undefined;
  /** Of an embedding model, likewise. */
  readonly vectors?: VectorOutput | undefined;
  /** Whether the batch was fixed before. */
  readonly batchOpened: boolean;
  readonly notes: readonly string[];
  /** All that keeps it from being imported. */
  readonly problems: readonly Problem[];
}

/** Changes the model. */
export function adaptToTask(model: Model, choice: TaskChoice): Adapted {
  const { task } = choice;
  if (task === "tensor")
    return {
      task,
      classification: false,
      labels: choice.labels,
      preprocessor: undefined,
      batchOpened: false,
      notes: [],
      problems: [],
    };
  const notes: string[] = [];
  const problems: Problem[] = [];
  const take = (result: readonly string[] | Problem) =>
    "problem" in result ? void problems.push(result) : void notes.push(...result);

  const listed = freezeInitializers(model);
  if (listed > 0) notes.push(`${listed} of its inputs are weights, and no inputs any more`);
  const outcome =
    task === "embedding"
      ? { vectors: vectorOutput(model, choice, take) }
      : { labels: labelsOf(model, choice, take) };
  const preprocessor =
    task === "image-classification"
      ? imagePreprocessor(model, choice, take)
      : textPreprocessor(model, choice, take);
  const batchOpened = hasFixedBatch(model);
  if (batchOpened) {
    openBatch(model);
    notes.push("its batch was of a fixed size, and may be any now");
  }
  return {
    task,
    classification: task !== "embedding",
    labels: undefined,
    ...outcome,
    preprocessor,
    batchOpened,
    notes,
    problems,
  };
}

type Take = (result: readonly string[] | Problem) => void;

function labelsOf(
  model: Model,
  { labels: given, logits }: TaskChoice,
  take: Take,
): readonly string[] | undefined {
  take(nameLogits(model, logits));
  const labels = given ?? labelsInModel(model);
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

function vectorOutput(
  model: Model,
  { vectors = {} }: TaskChoice,
  take: Take,
): VectorOutput | undefined {
  const found = findVectors(model, vectors);
  if (!("problem" in found)) return found;
  take(found);
  return undefined;
}

function textPreprocessor(
  model: Model,
  { task, text }: TaskChoice,
  take: Take,
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

function imagePreprocessor(
  model: Model,
  { image }: TaskChoice,
  take: Take,
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
  graph.input.some((input) => dimsOf(input)?.[0] !== undefined);

/** By its inputs and outputs, where nobody says it. */
export function guessTask({ graph }: Model): ImportedTask {
  const weights = new Set(graph.initializer.map(({ name }) => name));
  const ranks = graph.input.filter(({ name }) => !weights.has(name)).map((input) => dimsOf(input));
  const givesRows = graph.output.some((output) => dimsOf(output)?.length === 2);
  if (graph.input.some(({ name }) => name === "input_ids") && givesRows)
    return graph.output.some(({ name }) => POOLED.includes(name))
      ? "embedding"
      : "text-classification";
  const [only, ...others] = ranks;
  if (others.length === 0 && only?.length === 4 && (only[1] === 3 || only[3] === 3) && givesRows)
    return "image-classification";
  return "tensor";
}
