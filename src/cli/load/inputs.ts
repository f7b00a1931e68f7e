// The inputs of a load: of a file, or made up from a seed.

import { cliErrors } from "../errors.ts";
import { readFile } from "node:fs/promises";
import { readTensorSamples } from "../../toolchain/import/tensor-samples.ts";
import { generateInputs } from "../../toolchain/passes/verify-outputs.ts";
import { seededRandom } from "../../toolchain/seeded-random.ts";
import { reasonOf } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import { detectImageFormat } from "../../tasks/image/image-header.ts";
import { createNoisePng } from "../doctor/noise-png.ts";
import { readInputs } from "../precompute/inputs.ts";
import { generateQueries } from "./query-generator.ts";

/** A text, or a file as it is. */
export type LoadInput = string | { readonly bytes: Uint8Array; readonly mediaType: string };

export interface LoadInputs {
  readonly inputs: readonly LoadInput[];
  /** For the report. */
  readonly source: string;
}

/** So many that caches do not hold the answers to most calls of a short load. */
const TEXTS = 5_000;
const IMAGES = 64;
const IMAGE_SIDE = 64;
const GENERATED_SOURCE = "made up";

/** @throws usage */
export async function readInputLines(path: string, command: string): Promise<LoadInputs> {
  const { lines } = await readInputs(path, command);
  return {
    source: path,
    inputs: lines.map(({ input }) =>
      typeof input === "string" ? input : image(Buffer.from(input.b64, "base64")),
    ),
  };
}

/** @throws usage */
export async function readFileInput(path: string, command: string): Promise<LoadInputs> {
  const bytes = await readFile(path).catch((error: unknown) => {
    throw cliErrors.usage(`--file ${path} cannot be read: ${reasonOf(error)}`, command);
  });
  return {
    source: path,
    inputs: [detectImageFormat(bytes) === undefined ? bytes.toString() : image(bytes)],
  };
}

/** What is neither JPEG nor PNG goes as what it should be: the server says what is wrong with it. */
const image = (bytes: Uint8Array): LoadInput => ({
  bytes,
  mediaType: `image/${detectImageFormat(bytes) ?? "png"}`,
});

export const generateTexts = (seed: number): LoadInputs => ({
  source: GENERATED_SOURCE,
  inputs: generateQueries(TEXTS, seed),
});

export function generateImages(seed: number): LoadInputs {
  const random = seededRandom(seed);
  return {
    source: GENERATED_SOURCE,
    inputs: Array.from({ length: IMAGES }, () => ({
      bytes: createNoisePng(IMAGE_SIDE, IMAGE_SIDE, random),
      mediaType: "image/png",
    })),
  };
}

interface TensorInputs {
  readonly rows: readonly NamedTensors[];
  readonly source: string;
}

/** One row each. @throws not_comparable for tensors that nobody can make up */
export function generateTensors(specs: readonly TensorSpec[]): TensorInputs {
  const oneRow = specs.map((spec) => ({
    ...spec,
    shape: spec.shape.map((size) => (size === -1 ? 1 : size)),
  }));
  return { source: GENERATED_SOURCE, rows: generateInputs(oneRow) };
}

/** @throws invalid_tensor_samples */
export async function readTensors(
  path: string,
  inputs: readonly TensorSpec[],
): Promise<TensorInputs> {
  return {
    source: path,
    rows: (await readTensorSamples(path, { inputs, outputs: [] })).map((sample) => sample.inputs),
  };
}
