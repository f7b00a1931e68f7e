// Requests that show what a model takes: its task's example first, then texts of every length, alone and in batches, and
// at last the largest that the Worker accepts.

import { seededRandom } from "../../build/seeded-random.ts";
import type { EdgeConfig } from "../../http/config.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { TaskInput } from "../../tasks/task.ts";
import { taskByName } from "../../tasks/tasks.ts";

const REQUESTS = 300;
/** Every so many of them is a batch. */
const BATCH_EVERY = 10;
const BATCH = 8;
const LARGEST_REQUESTS = 4;
const SEED = 1;
/** Of a body's bytes, what inputs may take: the rest is JSON around them. */
const INPUTS_SHARE = 0.9;

export interface SampleRequest {
  readonly path: string;
  readonly body: string;
}

type Limits = Pick<EdgeConfig, "EDGETIER_MAX_INPUTS" | "EDGETIER_MAX_BODY_BYTES">;

/** @param maxTier id of the last tier that may be asked */
export function sampleRequests(project: ClassificationProject, maxTier: string, limits: Limits): { readonly first: SampleRequest; readonly more: readonly SampleRequest[] } {
  const random = seededRandom(SEED);
  const { maxBytes } = project.input;
  const request = (inputs: string | readonly string[]): SampleRequest => ({
    path: `/v1/models/${project.model}/predict`,
    body: JSON.stringify({ inputs, parameters: { cache: "bypass", maxTier } }),
  });
  const some = Array.from({ length: REQUESTS }, (_, index) => {
    const input = () => text(random, Math.min(maxBytes, 1 + Math.floor(random() * 200)));
    return request(index % BATCH_EVERY === 0 ? Array.from({ length: Math.min(BATCH, limits.EDGETIER_MAX_INPUTS) }, input) : input());
  });
  const largestBatch = Math.min(limits.EDGETIER_MAX_INPUTS, Math.floor((limits.EDGETIER_MAX_BODY_BYTES * INPUTS_SHARE) / maxBytes));
  const largest = largestBatch < 1 ? [] : Array.from({ length: LARGEST_REQUESTS }, () => request(Array.from({ length: largestBatch }, () => text(random, maxBytes))));
  return { first: request(onTheWire(taskByName(project.task).example)), more: [...some, ...largest] };
}

function onTheWire(input: TaskInput): string {
  switch (input.kind) {
    case "text":
      return input.text;
  }
}

/** Made-up words of ASCII letters, `length` bytes in all. */
function text(random: () => number, length: number): string {
  const letter = () => String.fromCharCode(97 + Math.floor(random() * 26));
  let words = "";
  while (words.length < length) words += `${Array.from({ length: 1 + Math.floor(random() * 9) }, letter).join("")} `;
  return words.slice(0, length);
}
