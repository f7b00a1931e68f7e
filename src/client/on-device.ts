// On-device inference: runs the edge tiers of an export in the app, and escalates uncertain inputs to the edge.
//
// This is an entry of its own, because it contains the edge's code for features, pixels, confidence and exits, which
// `predict` alone does not need.

import type { TierPrediction } from "../cascade/calibration.ts";
import { EdgeTierError as TaskError } from "../core/errors.ts";
import type { DeviceManifest } from "../registry/device-manifest.ts";
import type { ImageDecoder } from "../tasks/image/image.ts";
import { abortedError } from "./abort-scope.ts";
import { parseJsonText } from "./connection.ts";
import { EdgeTierError, clientError, isOutage } from "./errors.ts";
import {
  readManifest,
  type ReadExportFile,
  readVerifiedFile,
  type Sha256,
  webSha256,
} from "./on-device/device-export.ts";
import {
  createDeviceTier,
  type DeviceInput,
  type DeviceTierRunner,
} from "./on-device/device-tier.ts";
import { type Ort, type OrtTensor, createGraphRunner } from "./on-device/ort-session.ts";
import type { Prediction, PredictOptions, PredictOutput } from "./predict.ts";
import { withCurrentNames } from "./renamed-options.ts";
import { fromUtf8 } from "./utf8.ts";

export type { DeviceInput, DeviceManifest, ImageDecoder, Ort, OrtTensor, ReadExportFile, Sha256 };

/**
 * Target of escalations. A `Client` of `edgetier/client` is one.
 *
 * @example
 * import { createClient } from "edgetier/client";
 * import type { EdgePredictor } from "edgetier/client/on-device";
 *
 * const edge: EdgePredictor = createClient({ url: "https://predict.example.com" });
 */
export interface EdgePredictor {
  predict(
    model: string,
    input: DeviceInput,
    options?: PredictOptions,
  ): Promise<Prediction<readonly [PredictOutput]>>;
}

/**
 * Options of {@link loadDeviceModel}.
 *
 * @example
 * import * as ort from "onnxruntime-web/wasm";
 * import { type DeviceModelOptions, loadDeviceModel } from "edgetier/client/on-device";
 *
 * const options: DeviceModelOptions<ort.Tensor> = {
 *   ort,
 *   readFile: async (name) => new Uint8Array(await (await fetch(`/model/${name}`)).arrayBuffer()),
 * };
 * const device = await loadDeviceModel(options);
 */
export interface DeviceModelOptions<AnyTensor extends OrtTensor> {
  /** Exports of onnxruntime-web or onnxruntime-react-native. */
  readonly ort: Ort<AnyTensor>;
  /** Reads a file of the export by its name. */
  readonly readFile: ReadExportFile;
  /** Target of escalations. Without one, every input is answered by the device's best output. */
  readonly edge?: EdgePredictor | undefined;
  /** Decoder for the inputs of an image model. */
  readonly imageDecoder?: ImageDecoder | undefined;
  /** Defaults to Web Crypto. */
  readonly sha256?: Sha256 | undefined;
  /** @deprecated Use `imageDecoder`. */
  readonly images?: ImageDecoder | undefined;
}

/**
 * Model on this device, made by {@link loadDeviceModel}.
 *
 * @example
 * import type { DeviceModel } from "edgetier/client/on-device";
 *
 * async function classify(device: DeviceModel, text: string): Promise<string> {
 *   const { outputs } = await device.predict(text, { topK: 1 });
 *   return outputs[0].label;
 * }
 */
export interface DeviceModel {
  readonly manifest: DeviceManifest;
  /**
   * Predicts on the device, and escalates to the edge if no exit is taken. If the edge is unreachable, the device's
   * output is returned and marked as degraded. The version is 0 if the export has none.
   * @throws EdgeTierError if neither the device nor the edge has an output, or the reason of the caller's signal
   */
  predict(
    input: DeviceInput,
    options?: PredictOptions,
  ): Promise<Prediction<readonly [PredictOutput]>>;
}

const DEFAULT_TOP_K = 5;

/**
 * Reads an export, verifies its files, and opens a session for each tier.
 *
 * @throws EdgeTierError
 * @example
 * import * as ort from "onnxruntime-web/wasm";
 * import { createClient } from "edgetier/client";
 * import { loadDeviceModel } from "edgetier/client/on-device";
 *
 * const device = await loadDeviceModel({
 *   ort,
 *   edge: createClient({ url: "https://predict.example.com" }),
 *   readFile: async (name) => new Uint8Array(await (await fetch(`/model/${name}`)).arrayBuffer()),
 * });
 * const { outputs, source } = await device.predict("what is my balance");
 */
export async function loadDeviceModel<AnyTensor extends OrtTensor>(
  options: DeviceModelOptions<AnyTensor>,
): Promise<DeviceModel> {
  const { ort, readFile, edge, imageDecoder, sha256 = webSha256 } = withCurrentNames(options);
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
    const graph = await readVerifiedFile(readFile, tier.graph, sha256);
    const runGraph = await createGraphRunner(ort, graph);
    tiers.push(createDeviceTier(manifest, tier, { runGraph, labels, artifact, imageDecoder }));
  }
  return {
    manifest,
    async predict(input, predictOptions = {}) {
      const local = await predictLocally(tiers, input, predictOptions);
      if (local.isFinal) return toDevicePrediction(manifest, local.best, local.usage);
      return await escalate(edge, manifest, input, predictOptions, local);
    },
  };
}

interface DeviceOutput {
  readonly tier: string;
  readonly prediction: TierPrediction;
}

type TierUsage = Prediction["usage"]["tiers"];

type LocalResult = { readonly usage: TierUsage } & (
  | { readonly isFinal: true; readonly best: DeviceOutput }
  | { readonly isFinal: false; readonly best: DeviceOutput | undefined }
);

/** Runs the tiers until one exits. @throws EdgeTierError for an invalid input, or the reason of the caller's signal */
async function predictLocally(
  tiers: readonly DeviceTierRunner[],
  input: DeviceInput,
  { topK = DEFAULT_TOP_K, maxTier, signal }: PredictOptions,
): Promise<LocalResult> {
  const usage: { tier: string; inputs: number; error?: string }[] = [];
  let best: DeviceOutput | undefined;
  for (const tier of tiers) {
    if (signal?.aborted === true) throw signal.reason ?? abortedError();
    try {
      best = { tier: tier.id, prediction: await tier.predict(input, topK) };
      usage.push({ tier: tier.id, inputs: 1 });
      if (tier.shouldExit(best.prediction) || maxTier === tier.id)
        return { isFinal: true, best, usage };
    } catch (error) {
      // The edge would reject an invalid input too. A fault of the device does not concern the edge.
      if (error instanceof EdgeTierError) throw error;
      if (error instanceof TaskError && error.status < 500) throw new EdgeTierError(error);
      const code = error instanceof TaskError ? error.code : "session_failed";
      usage.push({ tier: tier.id, inputs: 1, error: code });
    }
  }
  return { isFinal: false, best, usage };
}

async function escalate(
  edge: EdgePredictor | undefined,
  manifest: DeviceManifest,
  input: DeviceInput,
  options: PredictOptions,
  { best, usage }: LocalResult,
): Promise<Prediction<readonly [PredictOutput]>> {
  const model =
    manifest.version === null ? manifest.model : `${manifest.model}@${manifest.version}`;
  try {
    if (edge === undefined)
      throw clientError(
        "network",
        "The device model has no edge for escalations.",
        "Set the option `edge` of loadDeviceModel.",
      );
    return await edge.predict(model, input, options);
  } catch (error) {
    if (best === undefined || !isOutage(error)) throw error;
    return toDevicePrediction(manifest, best, usage, { degraded: true, degradedBy: error.code });
  }
}

function toDevicePrediction(
  { model, version }: DeviceManifest,
  { tier, prediction }: DeviceOutput,
  tiers: TierUsage,
  degradation: Partial<PredictOutput> = {},
): Prediction<readonly [PredictOutput]> {
  const { label, confidence, ranking } = prediction;
  const output = {
    label,
    score: confidence,
    scores: [...ranking],
    tier,
    confidence,
    degraded: false,
    ...degradation,
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

/** @deprecated Use `EdgePredictor`. */
export type Edge = EdgePredictor;

/** @deprecated Use `DeviceModel`. */
export type OnDevice = DeviceModel;

/** @deprecated Use `DeviceModelOptions`. */
export type OnDeviceOptions<AnyTensor extends OrtTensor> = DeviceModelOptions<AnyTensor>;

/** @deprecated Use `loadDeviceModel`. */
export const openOnDevice = loadDeviceModel;

/** @deprecated Use `ReadExportFile`. */
export type ReadFile = ReadExportFile;
