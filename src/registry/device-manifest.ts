// Manifest of a device export: the data with which an app runs the edge tiers locally, and escalates to the edge.

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

/** A file in the folder of the manifest. */
const exportedFileSchema = z.strictObject({
  file: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/),
  sha256: sha256Schema,
  bytes: z.int().min(1),
});

const deviceTierSchema = z.strictObject({
  /** Id of the same tier in the source model. */
  id: z.string(),
  precision: z.enum(["fp32", "fp16", "int8"]),
  /** Graph in the ORT format. */
  graph: exportedFileSchema,
  /** SHA-256 of the source ONNX graph, which the manifest of the edge's version also names. */
  source: sha256Schema,
  inputs: z.array(tensorSpecSchema).min(1),
  outputs: z.array(tensorSpecSchema).min(1),
  preprocessor: z.union([
    ...textPreprocessorSchema(exportedFileSchema).options,
    imagePreprocessorSchema,
  ]),
  calibration: calibrationSchema,
  /** Exit rule, as in the manifest; null accepts every output. */
  exit: exitRuleSchema.nullable(),
});

export const deviceManifestSchema = z.strictObject({
  schemaVersion: z.literal(1),
  target: z.literal("ort-mobile"),
  model: modelNameSchema,
  /** Version for calls to the edge; null selects the alias `stable`. */
  version: versionNumberSchema.nullable(),
  task: z.enum(["text-classification", "image-classification"]),
  description: z.string(),
  input: z.strictObject({ maxBytes: z.int().min(1), maxPixels: z.int().min(1).optional() }),
  /** JSON array of label names, in the order of the logits. */
  labels: exportedFileSchema,
  /** Tiers in call order. */
  tiers: z.array(deviceTierSchema).min(1),
  /** Guarantee of the whole cascade, including the edge's tiers. */
  risk: riskGuaranteeSchema.optional(),
  /** Version of ONNX Runtime that wrote the graphs; older versions may fail to read them. */
  onnxRuntime: z.string(),
});
export type DeviceManifest = z.output<typeof deviceManifestSchema>;
export type DeviceTier = DeviceManifest["tiers"][number];
export type ExportedFile = z.output<typeof exportedFileSchema>;
