// The first exit on the device: the edge's own tiers and thresholds, and the edge for what they are not sure of.
//
// An entry of its own: it brings the edge's code for features, pixels, confidence and exits along, which `predict` alone does not need.

import type { TierPrediction } from "../cascade/calibration.ts";
import { EdgeTierError as TaskError } from "../core/errors.ts";
import type { DeviceManifest } from "../registry/device-manifest.ts";
import type { ImageDecoder } from "../tasks/image/image.ts";
import { parseJsonText } from "./connection.ts";
import { EdgeTierError, clientError, isOutage } from "./errors.ts";
import {
  createDeviceTier,
  type DeviceInput,
  type DeviceTierRunner,
} from "./on-device/device-tier.ts";
import {
  readManifest,
  type ReadFile,
  readVerifiedFile,
  type Sha256,
  webSha256,
} from "./on-device/device-export.ts";
import { type Ort, type OrtTensor, createGraphRunner } from "./on-device/ort-session.ts";
import type { Prediction, PredictOptions, PredictOutput } from "./predict.ts";
import { fromUtf8 } from "./utf8.ts";

export type { DeviceInput, DeviceManifest, ImageDecoder, Ort, OrtTensor, ReadFile, Sha256 };

/** As a Client has it; what is not sure on the device goes there. */
export interface Edge {
  predict(
    model: string,
    input: DeviceInput,
    options?: PredictOptions,
  ): Promise<Prediction<readonly [PredictOutput]>>;
}

export interface OnDeviceOptions<AnyTensor extends OrtTensor> {
  /** onnxruntime-web or onnxruntime-react-native. */
  readonly ort: Ort<AnyTensor>;
  readonly readFile: ReadFile;
  /** Undefined: the device answers everything, as well as it can. */
  readonly edge?: Edge | undefined;
  /** For a model that takes images. */
  readonly images?: ImageDecoder | undefined;
  readonly sha256?: Sha256 | undefined;
}

export interface OnDevice {
  readonly manifest: DeviceManifest;
  /**
   * Of an export that names no version, a device's answer has version 0.
   * @returns the device's answer where it is sure, the edge's where it is not, and where the edge cannot be reached the device's all the same, marked as degraded
   * @throws EdgeTierError where nobody has an answer, or the reason of the caller's signal
   */
  predict(
    input: DeviceInput,
    options?: PredictOptions,
  ): Promise<Prediction<readonly [PredictOutput]>>;
}

const DEFAULT_TOP_K = 5;

/** Reads, verifies and opens an export. @throws EdgeTierError */
export async function openOnDevice<AnyTensor extends OrtTensor>({
  ort,
  readFile,
  edge,
  images,
  sha256 = webSha256,
}: OnDeviceOptions<AnyTensor>): Promise<OnDevice> {
  const manifest = await readManifest(readFile);
  const labels: readonly string[] = parseJsonText(
    fromUtf8(await readVerifiedFile(readFile, manifest.labels, sha256)),
  );
  const tiers: DeviceTierRunner[] = [];
  for (const tier of manifest.tiers) {
    const artifact =
      "artifact" in tier.preprocessor
        ? await readVerifiedFile(readFile, tier.preprocessor.artifact, sha256)
        : undefined;
    const run = await createGraphRunner(ort, await readVerifiedFile(readFile, tier.graph, sha256));
    tiers.push(
      createDeviceTier(manifest, tier, { runGraph: run, labels, artifact, imageDecoder: images }),
    );
  }
  const model =
    manifest.version === null ? manifest.model : `${manifest.model}@${manifest.version}`;

  return {
    manifest,
    async predict(input, options = {}) {
      const used: { tier: string; inputs: number; error?: string }[] = [];
      let best: TierAnswer | undefined;
      for (const tier of tiers) {
        if (options.signal?.aborted === true)
          throw (
            options.signal.reason ?? clientError("aborted", "The caller gave the request up.", "")
          );
        try {
          best = { tier: tier.id, answer: await tier.answer(input, options.topK ?? DEFAULT_TOP_K) };
          used.push({ tier: tier.id, inputs: 1 });
          if (tier.shouldExit(best.answer) || options.maxTier === tier.id)
            return toDevicePrediction(manifest, best, used);
        } catch (error) {
          // What is wrong with the input would be so at the edge; what is wrong with the device is not.
          if (error instanceof EdgeTierError) throw error;
          if (error instanceof TaskError && error.status < 500) throw new EdgeTierError(error);
          used.push({
            tier: tier.id,
            inputs: 1,
            error: error instanceof TaskError ? error.code : "session_failed",
          });
        }
      }
      try {
        if (edge === undefined)
          throw clientError(
            "network",
            "There is no edge to go on to.",
            "Give openOnDevice an edge.",
          );
        return await edge.predict(model, input, options);
      } catch (error) {
        if (best === undefined || !isOutage(error)) throw error;
        return toDevicePrediction(manifest, best, used, { degraded: true, degradedBy: error.code });
      }
    },
  };
}

interface TierAnswer {
  readonly tier: string;
  readonly answer: TierPrediction;
}

function toDevicePrediction(
  { model, version }: DeviceManifest,
  { tier, answer }: TierAnswer,
  tiers: Prediction["usage"]["tiers"],
  more: Partial<PredictOutput> = {},
): Prediction<readonly [PredictOutput]> {
  const { label, confidence, ranking } = answer;
  const output = {
    label,
    score: confidence,
    scores: [...ranking],
    tier,
    confidence,
    degraded: false,
    ...more,
  };
  return {
    id: "",
    model,
    version: version ?? 0,
    outputs: [output],
    usage: { tiers },
    requestId: undefined,
    source: "device",
  };
}
