// The doctor's requests to a model that takes images: each is one that it takes.
import { expect, it } from "vitest";
import { sampleRequests } from "../../src/cli/doctor/sample-requests.ts";
import { imageClassification } from "../../src/tasks/image-classification.ts";
import { createImageDecoder } from "../../src/tasks/image/image-decoder.ts";
import { nodeImageCodecs } from "../../src/runtime/native/image-codecs.ts";
import { colourProject, MAX_IMAGE_BYTES } from "../support/colour-model.ts";

it("the doctor's images can be decoded, and are within the limits", () => {
  const { project } = colourProject();
  if (project.task !== "image-classification") throw new TypeError("another task");
  const { first, more } = sampleRequests(project, "edge", { EDGETIER_MAX_INPUTS: 8, EDGETIER_MAX_BODY_BYTES: 1_000, EDGETIER_MAX_IMAGE_BODY_BYTES: 1_000_000 });
  const images = createImageDecoder({ modules: nodeImageCodecs(), maxMemoryBytes: 50_000_000 });
  const sizes = [first, ...more].map(({ path, mediaType, body }) => {
    expect([path, mediaType]).toEqual(["/v1/models/colours/predict?cache=bypass&maxTier=edge", "image/png"]);
    const input = imageClassification.fromBytes(body as Uint8Array, 0, project.input);
    if (input.kind !== "image") throw new TypeError("another kind");
    return images.decode(input, ({ width, height }) => width * height);
  });
  expect(sizes[0]).toBe(1);
  expect(Math.max(...sizes)).toBeGreaterThan(MAX_IMAGE_BYTES / 10);
  expect(Math.max(...more.map(({ body }) => body.length))).toBeLessThanOrEqual(MAX_IMAGE_BYTES);
});
