// One tier on the device: an input becomes tensors, the graph runs, and its logits become a calibrated answer: by the edge's own code.

import { type TierPrediction, decodePredictions } from "../../cascade/calibration.ts";
import { shouldExit } from "../../cascade/early-exit.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { DeviceManifest, DeviceTier } from "../../registry/device-manifest.ts";
import { createImagePreprocessor } from "../../tasks/image/image-preprocessor.ts";
import { imageClassificationTask } from "../../tasks/image-classification.ts";
import type { ImageDecoder } from "../../tasks/image/image.ts";
import { createNgramHasher, type HashedNgramsConfig } from "../../tasks/text/hashed-ngrams.ts";
import { parseTextInput } from "../../tasks/text/text-input.ts";
import { parseJsonText } from "../connection.ts";
import { clientError } from "../errors.ts";
import { fromUtf8 } from "../utf8.ts";
import type { RunGraph } from "./ort-session.ts";

/** A text, or a JPEG or PNG file's bytes. */
export type DeviceInput = string | Uint8Array<ArrayBuffer>;

export interface DeviceTierRunner {
  readonly id: string;
  answer(input: DeviceInput, topK: number): Promise<TierPrediction>;
  /** Whether the edge would take the answer from this tier. */
  shouldExit(answer: TierPrediction): boolean;
}

export interface DeviceTierOptions {
  readonly runGraph: RunGraph;
  readonly labels: readonly string[];
  /** Of the preprocessor; none for images. */
  readonly artifact: Uint8Array | undefined;
  readonly imageDecoder: ImageDecoder | undefined;
}

/** @throws EdgeTierError `invalid_input` for what no device can prepare */
export function createDeviceTier(
  { input: limits }: DeviceManifest,
  tier: DeviceTier,
  { runGraph: run, labels, artifact, imageDecoder: images }: DeviceTierOptions,
): DeviceTierRunner {
  const encode = createInputEncoder(tier, limits, artifact, images);
  return {
    id: tier.id,
    async answer(input, topK) {
      const [answer] = decodePredictions(
        await run(encode(input)),
        1,
        labels,
        tier.calibration,
        topK,
      );
      if (answer === undefined)
        throw clientError("invalid_answer", `Tier ${tier.id} gave no answer.`, "");
      return answer;
    },
    shouldExit: (answer) => shouldExit(answer, tier.exit),
  };
}

function createInputEncoder(
  { id, preprocessor }: DeviceTier,
  limits: DeviceManifest["input"],
  artifact: Uint8Array | undefined,
  images: ImageDecoder | undefined,
): (input: DeviceInput) => NamedTensors {
  switch (preprocessor.kind) {
    case "hashed-ngrams": {
      const idsOf = createNgramHasher(
        parseJsonText<HashedNgramsConfig>(fromUtf8(artifact ?? new Uint8Array())),
      );
      return (input) => {
        const ids = idsOf(parseTextInput(input, 0, { maxBytes: limits.maxBytes }).text);
        return { ids: { datatype: "INT32", shape: [1, ids.length], data: ids } };
      };
    }
    case "image": {
      const { encode } = createImagePreprocessor(preprocessor, { imageDecoder: images });
      return (input) => {
        if (typeof input === "string")
          throw clientError(
            "invalid_input",
            "This model takes images.",
            "Give a JPEG or PNG file's bytes.",
          );
        return encode([
          imageClassificationTask.decodeInput(input, 0, {
            maxBytes: limits.maxBytes,
            maxPixels: limits.maxPixels ?? Number.POSITIVE_INFINITY,
          }),
        ]);
      };
    }
    default:
      throw clientError(
        "invalid_input",
        `Tier ${id} has the preprocessor ${preprocessor.kind}, which is not made for devices.`,
        "Leave it to the edge, or give the model a tier of hashed n-grams: `edgetier model distill`.",
      );
  }
}
