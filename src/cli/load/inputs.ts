// Load inputs: reads the inputs of a load from a file, or generates them from a seed.

import { readFile } from "node:fs/promises";
import { reasonOf } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import { detectImageFormat } from "../../tasks/image/image-header.ts";
import { readTensorSamples } from "../../toolchain/import/tensor-samples.ts";
import { generateInputs } from "../../toolchain/passes/verify-outputs.ts";
import { seededRandom } from "../../toolchain/seeded-random.ts";
import { createNoisePng } from "../doctor/noise-png.ts";
import { cliErrors } from "../errors.ts";
import { readInputs } from "../precompute/inputs.ts";
import { generateQueries } from "./query-generator.ts";

/** A text, or the bytes of a file. */
export type LoadInput = string | { readonly bytes: Uint8Array; readonly mediaType: string };

export interface LoadInputs {
  readonly inputs: readonly LoadInput[];
  /** Origin of the inputs, for the report. */
  readonly source: string;
}

/** Number of generated texts: large enough that most calls of a short load are not cached. */
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
      typeof input === "string" ? input : toImageInput(Buffer.from(input.b64, "base64")),
    ),
  };
}

/** @throws usage */
export async function readFileInput(path: string, command: string): Promise<LoadInputs> {
  const bytes = await readFile(path).catch((error: unknown) => {
    throw cliErrors.usage(`Cannot read --file ${path}: ${reasonOf(error)}`, command);
  });
  return {
    source: path,
    inputs: [detectImageFormat(bytes) === undefined ? bytes.toString() : toImageInput(bytes)],
  };
}

/** Sends other formats than JPEG and PNG as PNG, so that the server reports their problem. */
const toImageInput = (bytes: Uint8Array): LoadInput => ({
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

/** Generates one row of tensors. @throws not_comparable for tensors that cannot be generated */
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
