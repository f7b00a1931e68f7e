// The manifest of an export: what an app needs to answer on the device as the edge's tiers do, and to go on to the edge where they would.

import * as z from "zod";
import { calibrationSchema, exitRuleSchema, riskGuaranteeSchema } from "./manifest/calibration.ts";
import {
  modelNameSchema,
  sha256Schema,
  tensorSpecSchema,
  versionNumberSchema,
} from "./manifest/common-schemas.ts";
import { imagePreprocessorSchema, textPreprocessorSchema } from "./manifest/preprocessors.ts";

export const DEVICE_MANIFEST_FILE = "edgetier-device.json";

/** Beside the manifest. */
const exportedFileSchema = z.strictObject({
  file: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/),
  sha256: sha256Schema,
  bytes: z.int().min(1),
});

const deviceTierSchema = z.strictObject({
  /** As of the model it comes from. */
  id: z.string(),
  precision: z.enum(["fp32", "fp16", "int8"]),
  /** In ONNX Runtime's own format. */
  graph: exportedFileSchema,
  /** SHA-256 of the ONNX graph that it was made from: the manifest of the version that the edge serves names the same. */
  source: sha256Schema,
  inputs: z.array(tensorSpecSchema).min(1),
  outputs: z.array(tensorSpecSchema).min(1),
  preprocessor: z.union([
    ...textPreprocessorSchema(exportedFileSchema).options,
    imagePreprocessorSchema,
  ]),
  calibration: calibrationSchema,
  /** As of the manifest; null where every answer is taken. */
  exit: exitRuleSchema.nullable(),
});

export const deviceManifestSchema = z.strictObject({
  schemaVersion: z.literal(1),
  target: z.literal("ort-mobile"),
  model: modelNameSchema,
  /** The version that the edge is asked for; null: what `stable` names. */
  version: versionNumberSchema.nullable(),
  task: z.enum(["text-classification", "image-classification"]),
  description: z.string(),
  input: z.strictObject({ maxBytes: z.int().min(1), maxPixels: z.int().min(1).optional() }),
  /** A JSON array of texts, in the order of the logits. */
  labels: exportedFileSchema,
  /** In the order in which they are asked. */
  tiers: z.array(deviceTierSchema).min(1),
  /** Of the whole cascade, the edge's tiers included. */
  risk: riskGuaranteeSchema.optional(),
  /** Of what wrote the graphs: an older one may not read them. */
  onnxRuntime: z.string(),
});
export type DeviceManifest = z.output<typeof deviceManifestSchema>;
export type DeviceTier = DeviceManifest["tiers"][number];
export type ExportedFile = z.output<typeof exportedFileSchema>;
