// Import arguments: options of `model import` for facts that an ONNX file does not contain.

import { readFile } from "node:fs/promises";
import { reasonOf } from "../../core/errors.ts";
import {
  inferTask,
  type ImportableTask,
  type RgbValues,
  type TaskOptions,
} from "../../toolchain/import/adapt-to-task.ts";
import type { PoolingKind } from "../../toolchain/import/embedding-output.ts";
import { parseLabels } from "../../toolchain/import/label-metadata.ts";
import type { Model } from "../../toolchain/onnx/model-file.ts";
import { cliErrors } from "../errors.ts";
import { parseCount } from "./samples-args.ts";

export const taskArgs = {
  labels: {
    type: "string",
    valueHint: "file",
    description: "Labels in the order of the logits: a JSON array, or one per line",
  },
  logits: {
    type: "string",
    valueHint: "name",
    description: "Output that contains the logits, if several might",
  },
  tokenizer: {
    type: "string",
    valueHint: "file",
    description: "Text: tokenizer.json (WordPiece)",
  },
  "max-tokens": {
    type: "string",
    valueHint: "n",
    description: "Text: maximum number of tokens",
    default: "128",
  },
  features: {
    type: "string",
    valueHint: "file",
    description: "Text: settings of hashed n-grams, in place of a tokenizer",
  },
  output: {
    type: "string",
    valueHint: "name",
    description: "Embeddings: output that contains the vector, if several might",
  },
  mean: {
    type: "string",
    valueHint: "r,g,b",
    description: "Images: mean of each channel in training, from 0 to 1",
  },
  std: {
    type: "string",
    valueHint: "r,g,b",
    description: "Images: standard deviation of each channel in training",
  },
  size: {
    type: "string",
    valueHint: "WxH",
    description: "Images: training size, if the model accepts any",
  },
} as const;

interface ImportArgs {
  readonly task?: ImportableTask | undefined;
  readonly labels?: string | undefined;
  readonly logits?: string | undefined;
  readonly tokenizer?: string | undefined;
  readonly "max-tokens": string;
  readonly features?: string | undefined;
  readonly mean?: string | undefined;
  readonly std?: string | undefined;
  readonly size?: string | undefined;
  readonly fit: "stretch" | "cover";
  readonly output?: string | undefined;
  readonly pooling?: PoolingKind | undefined;
}

/** Reads the task's options. @throws usage for unreadable files and invalid values */
export async function readTaskChoice(
  args: ImportArgs,
  model: Model,
  command: string,
): Promise<TaskOptions> {
  const task = args.task ?? inferTask(model);
  const labels =
    args.labels === undefined
      ? undefined
      : parseLabels(
          new TextDecoder().decode(await readOptionFile("--labels", args.labels, command)),
        );
  if (args.labels !== undefined && labels === undefined)
    throw cliErrors.usage(
      `--labels ${args.labels} is neither a JSON array of distinct texts nor one label per line`,
      command,
    );
  const image = {
    mean: parseRgb("--mean", args.mean, command),
    std: parseRgb("--std", args.std, command),
    size: parseSize(args.size, command),
    fit: args.fit,
  };
  if (image.std?.some((value) => value <= 0) === true)
    throw cliErrors.usage(
      "--std contains a value that is not above 0; pass a positive number for each channel",
      command,
    );
  return {
    task,
    labels,
    logitsOutput: args.logits,
    text: await readTextChoice(args, command),
    embedding: { output: args.output, pooling: args.pooling },
    image,
  };
}

async function readTextChoice(args: ImportArgs, command: string): Promise<TaskOptions["text"]> {
  if (args.tokenizer !== undefined && args.features !== undefined)
    throw cliErrors.usage(
      "--tokenizer and --features exclude each other; pass one of them",
      command,
    );
  if (args.tokenizer !== undefined)
    return {
      kind: "wordpiece",
      artifact: await readOptionFile("--tokenizer", args.tokenizer, command),
      maxTokens: parseCount("--max-tokens", args["max-tokens"], command) ?? 128,
    };
  if (args.features !== undefined)
    return {
      kind: "hashed-ngrams",
      artifact: await readOptionFile("--features", args.features, command),
    };
  return undefined;
}

async function readOptionFile(option: string, path: string, command: string): Promise<Uint8Array> {
  return new Uint8Array(
    await readFile(path).catch((error: unknown) => {
      throw cliErrors.usage(`Cannot read ${option} ${path}: ${reasonOf(error)}`, command);
    }),
  );
}

function parseRgb(
  option: string,
  text: string | undefined,
  command: string,
): RgbValues | undefined {
  if (text === undefined) return undefined;
  const [red, green, blue, ...more] = text
    .split(",")
    .map((part) => (part.trim() === "" ? Number.NaN : Number(part)));
  if (
    red === undefined ||
    green === undefined ||
    blue === undefined ||
    more.length > 0 ||
    ![red, green, blue].every(Number.isFinite)
  )
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(text)}; expected three comma-separated numbers`,
      command,
    );
  return [red, green, blue];
}

function parseSize(
  text: string | undefined,
  command: string,
): { width: number; height: number } | undefined {
  if (text === undefined) return undefined;
  const [, width, height] = /^(\d{1,4})x(\d{1,4})$/.exec(text) ?? [];
  if (width === undefined || height === undefined)
    throw cliErrors.usage(
      `--size is ${JSON.stringify(text)}; expected a form such as 224x224`,
      command,
    );
  return { width: Number(width), height: Number(height) };
}
