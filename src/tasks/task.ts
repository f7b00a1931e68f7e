// The task port: what a request's input is for a kind of model, and how it becomes tensors. The same code runs at the
// edge and in the region.

import type { NamedTensors } from "../core/tensor.ts";
import type { ImageDecoder, ImageInput, ImagePreprocessorConfig } from "./image/image.ts";

/** One input of a prediction, parsed and within its limits. */
export type TaskInput = TextInput | TokensInput | ImageInput;

export interface TextInput {
  readonly kind: "text";
  readonly text: string;
}

/** A text as the ids of its tokens, for the tokenizer of the model that is asked. */
export interface TokensInput {
  readonly kind: "tokens";
  readonly ids: readonly number[];
}

/** How rows of different lengths are made equal: an answer does not depend on how far its row is padded. */
export interface RowPadding {
  /** The dimension, from 1, of every tensor that has it. */
  readonly axis: number;
  readonly value: number;
  /** Lengths to pad to, ascending, where not every length should be run; by default the longest row's. */
  readonly buckets?: readonly number[];
}

/** Turns inputs into the tensors of one graph; the first dimension of each is the batch. */
export interface Preprocessor {
  /** Of the tensors that `encode` makes; absent where rows of different calls cannot be made equal. */
  readonly padding?: RowPadding;
  /** @throws invalid_image, image_too_large_here; invalid_tokens */
  encode(inputs: readonly TaskInput[]): NamedTensors;
}

/** How one tier's graph wants its input; `artifact` is the preprocessor's own file, verified. */
export type TextPreprocessorConfig =
  | { readonly kind: "hashed-ngrams"; readonly artifact: Uint8Array }
  | { readonly kind: "wordpiece"; readonly artifact: Uint8Array; readonly maxTokens: number };
export type PreprocessorConfig = TextPreprocessorConfig | ImagePreprocessorConfig;

/** What preprocessors need of the platform that they run on. */
export interface PreprocessorDependencies {
  /** Absent where this deployment has none: an image's preprocessor is then refused. */
  readonly imageDecoder?: ImageDecoder | undefined;
}

export interface InputLimits {
  readonly maxBytes: number;
  /** Of an image, as stored. */
  readonly maxPixels?: number;
}

export interface Task {
  readonly name: string;
  /** A small valid input, for warm-up runs. */
  readonly exampleInput: TaskInput;
  /** Of a body that is one input as `fromBytes` reads it. */
  readonly mediaTypes: readonly string[];
  /**
   * Parses one element of `inputs` of a predict request.
   * @param index of the element, for messages
   * @throws invalid_request, input_too_large; empty_text; invalid_image, unsupported_image, image_too_large
   */
  parseInput(raw: unknown, index: number, limits: InputLimits): TaskInput;
  /** A text that two inputs share only if they are the same: for cache keys. */
  computeIdentity(input: TaskInput): string | Promise<string>;
  /** The input as bytes: what crosses to a region, as a BYTES element. */
  encodeInput(input: TaskInput): Uint8Array;
  /** The reverse of `toBytes`. @throws as parseInput, and invalid_utf8 */
  decodeInput(bytes: Uint8Array, index: number, limits: InputLimits): TaskInput;
  /** @throws preprocessor_invalid if the configuration or its artifact is not what the task needs, no_image_decoder */
  createPreprocessor(config: PreprocessorConfig, tools?: PreprocessorDependencies): Preprocessor;
}

/** Name of the BYTES input in which a region takes a task's own inputs, one element each. */
export const TASK_INPUT_NAME = "input";
