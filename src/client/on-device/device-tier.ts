// Device tier: encodes an input, runs the graph, and decodes its logits to a calibrated prediction. It uses the edge's own
// code, so that both give the same output.

import { type TierPrediction, decodePredictions } from "../../cascade/calibration.ts";
import { shouldExit } from "../../cascade/early-exit.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { DeviceManifest, DeviceTier } from "../../registry/device-manifest.ts";
import { imageClassificationTask } from "../../tasks/image-classification.ts";
import { createImagePreprocessor } from "../../tasks/image/image-preprocessor.ts";
import type { ImageDecoder } from "../../tasks/image/image.ts";
import { createNgramHasher, type HashedNgramsConfig } from "../../tasks/text/hashed-ngrams.ts";
import { parseTextInput } from "../../tasks/text/text-input.ts";
import { parseJsonText } from "../connection.ts";
import { clientError } from "../errors.ts";
import { fromUtf8 } from "../utf8.ts";
import type { RunGraph } from "./ort-session.ts";

/**
 * Input of a device model: a text, or the bytes of a JPEG or PNG file.
 *
 * @example
 * import type { DeviceInput } from "edgetier/client/on-device";
 *
 * const input: DeviceInput = "what is my balance";
 */
export type DeviceInput = string | Uint8Array<ArrayBuffer>;

export interface DeviceTierRunner {
  readonly id: string;
  predict(input: DeviceInput, topK: number): Promise<TierPrediction>;
  /** Applies the edge's exit rule. */
  shouldExit(prediction: TierPrediction): boolean;
}

export interface DeviceTierOptions {
  readonly runGraph: RunGraph;
  readonly labels: readonly string[];
  /** File of the text preprocessor; undefined for images. */
  readonly artifact: Uint8Array | undefined;
  readonly imageDecoder: ImageDecoder | undefined;
}

/** @throws EdgeTierError `invalid_input` if devices do not support the preprocessor */
export function createDeviceTier(
  { input: limits }: DeviceManifest,
  tier: DeviceTier,
  { runGraph, labels, artifact, imageDecoder }: DeviceTierOptions,
): DeviceTierRunner {
  const encode = createInputEncoder(tier, limits, artifact, imageDecoder);
  return {
    id: tier.id,
    async predict(input, topK) {
      const outputs = await runGraph(encode(input));
      const [prediction] = decodePredictions(outputs, 1, labels, tier.calibration, topK);
      if (prediction === undefined)
        throw clientError(
          "invalid_answer",
          `Tier ${tier.id} returned no prediction.`,
          "Export the model again.",
        );
      return prediction;
    },
    shouldExit: (prediction) => shouldExit(prediction, tier.exit),
  };
}

function createInputEncoder(
  { id, preprocessor }: DeviceTier,
  limits: DeviceManifest["input"],
  artifact: Uint8Array | undefined,
  imageDecoder: ImageDecoder | undefined,
): (input: DeviceInput) => NamedTensors {
  switch (preprocessor.kind) {
    case "hashed-ngrams": {
      const hashNgrams = createNgramHasher(
        parseJsonText<HashedNgramsConfig>(fromUtf8(artifact ?? new Uint8Array())),
      );
      return (input) => {
        const ids = hashNgrams(parseTextInput(input, 0, { maxBytes: limits.maxBytes }).text);
        return { ids: { datatype: "INT32", shape: [1, ids.length], data: ids } };
      };
    }
    case "image": {
      const { encode } = createImagePreprocessor(preprocessor, { imageDecoder });
      return (input) => {
        if (typeof input === "string")
          throw clientError(
            "invalid_input",
            "The input is a text; this model expects an image.",
            "Pass the bytes of a JPEG or PNG file.",
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
        `Tier ${id} has the preprocessor ${preprocessor.kind}, which devices do not support.`,
        "Run the model at the edge, or add a tier with hashed n-grams (`edgetier model distill`).",
      );
  }
}
