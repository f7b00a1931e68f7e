// Task port: parses the inputs of a kind of model, and converts them to tensors. Edge and region run the same code.

import type { NamedTensors } from "../core/tensor.ts";
import type { ImageDecoder, ImageInput, ImagePreprocessorConfig } from "./image/image.ts";

/** One parsed input of a prediction, within its limits. */
export type TaskInput = TextInput | TokensInput | ImageInput;

export interface TextInput {
  readonly kind: "text";
  readonly text: string;
}

/** A text as token ids of the model's own tokenizer. */
export interface TokensInput {
  readonly kind: "tokens";
  readonly ids: readonly number[];
}

/** Padding of rows to equal length, which must not change the output of a row. */
export interface RowPadding {
  /** Padded dimension, at least 1, of every tensor that has it. */
  readonly axis: number;
  readonly value: number;
  /** Ascending lengths to pad to; by default the longest row's length. */
  readonly buckets?: readonly number[];
}

/** Turns inputs into the tensors of one graph; the first dimension of each is the batch. */
export interface Preprocessor {
  /** Padding of the tensors of `encode`; absent if rows of different calls cannot be combined. */
  readonly padding?: RowPadding;
  /** @throws invalid_image, image_too_large_here; invalid_tokens */
  encode(inputs: readonly TaskInput[]): NamedTensors;
}

/** Configuration of a tier's preprocessor; `artifact` is the verified content of its file. */
export type TextPreprocessorConfig =
  | { readonly kind: "hashed-ngrams"; readonly artifact: Uint8Array }
  | { readonly kind: "wordpiece"; readonly artifact: Uint8Array; readonly maxTokens: number };
export type PreprocessorConfig = TextPreprocessorConfig | ImagePreprocessorConfig;

/** Platform dependencies of preprocessors. */
export interface PreprocessorDependencies {
  /** Absent if the deployment has no image decoder; image preprocessors then fail. */
  readonly imageDecoder?: ImageDecoder | undefined;
}

export interface InputLimits {
  readonly maxBytes: number;
  /** Limit of an image's stored pixels. */
  readonly maxPixels?: number;
}

export interface Task {
  readonly name: string;
  /** A small valid input, for warm-up runs. */
  readonly exampleInput: TaskInput;
  /** Media types of a body that is a single input in the form of `decodeInput`. */
  readonly mediaTypes: readonly string[];
  /**
   * Parses one element of `inputs` of a predict request.
   * @param index position of the element, for messages
   * @throws invalid_request, input_too_large; empty_text; invalid_image, unsupported_image, image_too_large
   */
  parseInput(raw: unknown, index: number, limits: InputLimits): TaskInput;
  /** Computes a cache identity, which is equal only for identical inputs. */
  computeIdentity(input: TaskInput): string | Promise<string>;
  /** Encodes an input as a BYTES element, the form in which it travels to a region. */
  encodeInput(input: TaskInput): Uint8Array;
  /** Decodes an input; inverse of `encodeInput`. @throws the codes of `parseInput`, and invalid_utf8 */
  decodeInput(bytes: Uint8Array, index: number, limits: InputLimits): TaskInput;
  /** @throws preprocessor_invalid if the configuration or its artifact does not fit the task; no_image_decoder */
  createPreprocessor(
    config: PreprocessorConfig,
    dependencies?: PreprocessorDependencies,
  ): Preprocessor;
}

/** Name of the BYTES input through which a region accepts task inputs, one element each. */
export const TASK_INPUT_NAME = "input";
