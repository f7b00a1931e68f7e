// The doctor's requests to models that take images, or give vectors: each is one that they take.
import { expect, it } from "vitest";
import { createSampleRequests } from "../../src/cli/doctor/sample-requests.ts";
import { embeddingsRequestSchema, listInputs } from "../../src/protocol/embeddings.ts";
import { createLazyImageCodecs } from "../../src/runtime/native/image-codecs.ts";
import { embeddingTask } from "../../src/tasks/embedding.ts";
import { imageClassificationTask } from "../../src/tasks/image-classification.ts";
import { createImageDecoder } from "../../src/tasks/image/image-decoder.ts";
import { colorProject, MAX_IMAGE_BYTES } from "../support/color-model.ts";
import { MAX_TOKENS_PER_TEXT, embeddingProject } from "../support/embedding-model.ts";

it("the doctor's images can be decoded, and are within the limits", () => {
  const { project } = colorProject();
  if (project.task !== "image-classification") throw new TypeError("another task");
  const { coldRequest: first, steadyRequests: more } = createSampleRequests(project, "edge", {
    EDGETIER_MAX_INPUTS: 8,
    EDGETIER_MAX_TOKENS: 100,
    EDGETIER_MAX_BODY_BYTES: 1_000,
    EDGETIER_MAX_IMAGE_BODY_BYTES: 1_000_000,
  });
  const images = createImageDecoder({
    modules: createLazyImageCodecs(),
    maxMemoryBytes: 50_000_000,
  });
  const sizes = [first, ...more].map(({ path, mediaType, body }) => {
    expect({ path, mediaType }).toEqual({
      path: "/v1/models/colours/predict?cache=bypass&maxTier=edge",
      mediaType: "image/png",
    });
    const input = imageClassificationTask.decodeInput(body as Uint8Array, 0, project.input);
    if (input.kind !== "image") throw new TypeError("another kind");
    return images.decode(input, ({ width, height }) => width * height);
  });
  expect(sizes[0]).toBe(1);
  expect(Math.max(...sizes)).toBeGreaterThan(MAX_IMAGE_BYTES / 10);
  expect(Math.max(...more.map(({ body }) => body.length))).toBeLessThanOrEqual(MAX_IMAGE_BYTES);
});

it("the doctor's texts for vectors are within the limits of inputs and tokens", () => {
  const { project } = embeddingProject();
  if (project.task !== "embedding") throw new TypeError("another task");
  const { coldRequest: first, steadyRequests: more } = createSampleRequests(project, "edge", {
    EDGETIER_MAX_INPUTS: 64,
    EDGETIER_MAX_TOKENS: 100,
    EDGETIER_MAX_BODY_BYTES: 10_000,
    EDGETIER_MAX_IMAGE_BODY_BYTES: 1,
  });
  const counts = [first, ...more].map(({ path, body }) => {
    expect(path).toBe("/v1/embeddings");
    const inputs = listInputs(embeddingsRequestSchema.parse(JSON.parse(String(body))));
    expect(
      inputs.map((input, index) => embeddingTask.parseInput(input, index, project.input).kind),
    ).not.toContain("tokens");
    return inputs.length;
  });
  expect(counts[0]).toBe(1);
  expect(Math.max(...counts)).toBe(Math.floor(100 / MAX_TOKENS_PER_TEXT));
});
