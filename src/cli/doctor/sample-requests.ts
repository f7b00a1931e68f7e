// Sample requests: the task's example first, then a load that shows a model's memory. Text models get texts of every length,
// single and in batches, and the largest accepted requests; image models get images of many sizes.

import type { EdgeConfig } from "../../http/config.ts";
import { EMBEDDINGS_PATH } from "../../protocol/embeddings.ts";
import type {
  ClassificationProject,
  EmbeddingProject,
  ImageClassificationProject,
  TextClassificationProject,
} from "../../registry/manifest.ts";
import { imageClassificationTask } from "../../tasks/image-classification.ts";
import { textClassificationTask } from "../../tasks/text-classification.ts";
import { seededRandom } from "../../toolchain/seeded-random.ts";
import { createNoisePng } from "./noise-png.ts";

const REQUESTS = 300;
/** One in ten requests is a batch. */
const BATCH_EVERY = 10;
const BATCH = 8;
const LARGEST_REQUESTS = 4;
const SEED = 1;
/** Share of a body's bytes for inputs; the rest is JSON syntax. */
const INPUTS_SHARE = 0.9;
const IMAGES = 60;
const MAX_IMAGE_PIXELS = 1_000_000;
/** Maximum PNG bytes per pixel of a noise image. */
const BYTES_PER_PIXEL = 3.1;

export interface SampleRequest {
  readonly path: string;
  readonly mediaType: string;
  readonly body: string | Uint8Array<ArrayBuffer>;
}

interface SampleRequests {
  readonly coldRequest: SampleRequest;
  readonly steadyRequests: readonly SampleRequest[];
}

type Limits = Pick<
  EdgeConfig,
  | "EDGETIER_MAX_INPUTS"
  | "EDGETIER_MAX_TOKENS"
  | "EDGETIER_MAX_BODY_BYTES"
  | "EDGETIER_MAX_IMAGE_BODY_BYTES"
>;

/**
 * Creates the requests for a model.
 * @param maxTier id of the last tier to call; an embedding model has only one
 */
export function createSampleRequests(
  project: ClassificationProject | EmbeddingProject,
  maxTier: string,
  limits: Limits,
): SampleRequests {
  return project.task === "image-classification"
    ? createImageRequests(project, maxTier, limits)
    : createTextRequests(project, maxTier, limits);
}

function createTextRequests(
  project: TextClassificationProject | EmbeddingProject,
  maxTier: string,
  limits: Limits,
): SampleRequests {
  const random = seededRandom(SEED);
  const { maxBytes } = project.input;
  const request = (inputs: string | readonly string[]): SampleRequest => ({
    mediaType: "application/json",
    ...(project.task === "embedding"
      ? {
          path: EMBEDDINGS_PATH,
          body: JSON.stringify({ input: inputs, model: project.model, cache: "bypass" }),
        }
      : {
          path: `/v1/models/${project.model}/predict`,
          body: JSON.stringify({ inputs, parameters: { cache: "bypass", maxTier } }),
        }),
  });
  const ordinary = Array.from({ length: REQUESTS }, (_, index) => {
    const input = () => createText(random, Math.min(maxBytes, 1 + Math.floor(random() * 200)));
    return request(
      index % BATCH_EVERY === 0
        ? Array.from({ length: Math.min(BATCH, limits.EDGETIER_MAX_INPUTS) }, input)
        : input(),
    );
  });
  const maxInputsByTokens =
    project.task === "embedding"
      ? Math.floor(
          limits.EDGETIER_MAX_TOKENS /
            Math.max(...project.tiers.map(({ preprocessor }) => preprocessor.maxTokens)),
        )
      : Number.POSITIVE_INFINITY;
  const largestBatch = Math.min(
    limits.EDGETIER_MAX_INPUTS,
    maxInputsByTokens,
    Math.floor((limits.EDGETIER_MAX_BODY_BYTES * INPUTS_SHARE) / maxBytes),
  );
  const largest =
    largestBatch < 1
      ? []
      : Array.from({ length: LARGEST_REQUESTS }, () =>
          request(Array.from({ length: largestBatch }, () => createText(random, maxBytes))),
        );
  return {
    coldRequest: request(
      new TextDecoder().decode(
        textClassificationTask.encodeInput(textClassificationTask.exampleInput),
      ),
    ),
    steadyRequests: [...ordinary, ...largest],
  };
}

function createImageRequests(
  { model, input }: ImageClassificationProject,
  maxTier: string,
  limits: Limits,
): SampleRequests {
  const random = seededRandom(SEED);
  const request = (body: Uint8Array): SampleRequest => ({
    path: `/v1/models/${model}/predict?cache=bypass&maxTier=${maxTier}`,
    mediaType: "image/png",
    body: new Uint8Array(body),
  });
  const maxBytes = Math.min(input.maxBytes, limits.EDGETIER_MAX_IMAGE_BODY_BYTES) * INPUTS_SHARE;
  const maxSide = Math.floor(
    Math.sqrt(Math.min(input.maxPixels, MAX_IMAGE_PIXELS, maxBytes / BYTES_PER_PIXEL)),
  );
  const side = () => 1 + Math.floor(random() * maxSide);
  return {
    coldRequest: request(imageClassificationTask.encodeInput(imageClassificationTask.exampleInput)),
    steadyRequests: Array.from({ length: IMAGES }, () =>
      request(createNoisePng(side(), side(), random)),
    ),
  };
}

/** Creates words of random ASCII letters, `length` bytes in total. */
function createText(random: () => number, length: number): string {
  const letter = () => String.fromCharCode(97 + Math.floor(random() * 26));
  let words = "";
  while (words.length < length)
    words += `${Array.from({ length: 1 + Math.floor(random() * 9) }, letter).join("")} `;
  return words.slice(0, length);
}
