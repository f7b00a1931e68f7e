// Manifest: the JSON that describes one immutable version of a model. The zod schemas are the source of all its types.

import * as z from "zod";
import { calibrationSchema, exitRuleSchema, riskGuaranteeSchema } from "./manifest/calibration.ts";
import {
  artifactRefSchema,
  modelNameSchema,
  sha256Schema,
  tensorSpecSchema,
  versionNumberSchema,
} from "./manifest/common-schemas.ts";
import {
  imagePreprocessorSchema,
  textPreprocessorSchema,
  wordpiecePreprocessorSchema,
} from "./manifest/preprocessors.ts";
import {
  checkExitRules,
  checkTierOrder,
  checkImageInputs,
  checkResumptions,
  checkEncoderOutputs,
  type ExitingTier,
  type EncoderTier,
  type ResumingTier,
  type ImageTier,
  type PlacedTier,
} from "./manifest/tier-checks.ts";
import { servingConfigSchema } from "./serving-config.ts";

export * from "./manifest/alias-schemas.ts";
export * from "./manifest/calibration.ts";
export * from "./manifest/common-schemas.ts";
export * from "./manifest/file-references.ts";

const tierIdSchema = z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/);

/** The remaining graph of a region tier, which continues from the values of an edge tier. */
const resumptionSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({
    /** Id of the edge tier. */
    tier: tierIdSchema,
    /** Graph from `inputs` to the region tier's outputs. */
    graph: artifact,
    /** Inputs of the graph. Each has the name of an output of the edge tier, or else of one of its inputs. */
    inputs: z.array(tensorSpecSchema).min(1),
  });

export type Resumption = z.output<ReturnType<typeof resumptionSchema<typeof artifactRefSchema>>>;

const tierFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  id: tierIdSchema,
  place: z.enum(["edge", "region"]),
  /** Precision of `graph`. */
  precision: z.enum(["fp32", "fp16", "int8"]),
  graph: artifact,
  /** The same graph in FP16, for execution providers of a region that run it faster. */
  fp16Graph: artifact.optional(),
  inputs: z.array(tensorSpecSchema).min(1),
  outputs: z.array(tensorSpecSchema).min(1),
  serving: servingConfigSchema(artifact).optional(),
  /**
   * p95 latency of one input on the calibration machine, without network time. Deadlines use it until the server has
   * its own measurements.
   */
  p95Ms: z.number().positive().optional(),
  /** Figures of the tier, measured at build time; their names contain units. */
  figures: z.record(z.string(), z.number()).default({}),
});

const classificationTierSchema = <Artifact extends z.ZodType, Preprocessor extends z.ZodType>(
  artifact: Artifact,
  preprocessor: Preprocessor,
) =>
  z.strictObject({
    ...tierFields(artifact),
    preprocessor,
    /** Calibration of the FP32 [batch, labels] output `logits`. */
    calibration: calibrationSchema,
    /** Minimum confidence to accept the output; 1 never accepts. Null for the last tier, whose output is always accepted. */
    exit: exitRuleSchema.nullable(),
    /** Lets this region tier continue from an edge tier's values; it still accepts the task's own input. */
    resumes: resumptionSchema(artifact).optional(),
  });

const embeddingTierSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({
    ...tierFields(artifact),
    preprocessor: wordpiecePreprocessorSchema(artifact),
    /**
     * Pooling of the FP32 output `output`. With `graph`, it is [batch, dimensions]. With `mean` and `cls`, it is
     * [batch, tokens, dimensions], and the vector is the mean over the text's tokens, or the first token's.
     */
    pooling: z.enum(["graph", "mean", "cls"]),
    output: z.string().min(1),
  });

/** Reference to a snapshot: an engine's memory with the tier's session open (runtime/wasm/snapshot-format.ts). */
export const snapshotRefSchema = z.strictObject({
  artifact: artifactRefSchema,
  /** Digest and size of everything before the chunks. */
  head: z.strictObject({ sha256: sha256Schema, size: z.int().min(1).max(16_777_216) }),
  /** SHA-256 of the full engine that made the snapshot. */
  engine: sha256Schema,
  /** Functions that a run of the graph calls (runtime/wasm/function-set.ts). An engine without them cannot serve it. */
  functions: z.base64(),
  memoryBytes: z.int().min(1),
});
export type SnapshotRef = z.output<typeof snapshotRefSchema>;

export const SLO_CLASSES_MS = [10, 50, 100, 200, 500] as const;

/** Fields of both model projects and manifests. A project references files by path, a manifest by digest. */
const modelFields = {
  schemaVersion: z.literal(1),
  model: modelNameSchema,
  description: z.string().default(""),
  /** Default deadline of a request. */
  deadlineMs: z.int().min(1).max(600_000),
  /** Latency class: p99 compute time of a response, over all called tiers. `model eval` checks it. */
  sloMs: z.literal(SLO_CLASSES_MS).optional(),
  figures: z.record(z.string(), z.number()).default({}),
  provenance: z.record(z.string(), z.json()).default({}),
};

const textFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  ...modelFields,
  risk: riskGuaranteeSchema.optional(),
  task: z.literal("text-classification"),
  /** JSON array of the labels, in the order of the logits. */
  labels: artifact,
  /** Report of calibration quality, and of the effect of other exits (protocol/model-report.ts). */
  report: artifact.optional(),
  input: z.strictObject({ maxBytes: z.int().min(1).max(1_048_576) }),
});

const imageFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  ...textFields(artifact),
  task: z.literal("image-classification"),
  /** Limits of a JPEG or PNG file, and of its stored pixels. */
  input: z.strictObject({
    maxBytes: z.int().min(1).max(33_554_432),
    maxPixels: z.int().min(1).max(16_777_216),
  }),
});

/** A plain graph, called with its own tensors over the Open Inference Protocol. */
const tensorFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  ...modelFields,
  task: z.literal("tensor"),
  /** Labels for the protocol's classification extension. */
  labels: artifact.optional(),
});

/**
 * An embedding model, which converts a text to a vector. A vector has no confidence and so no exit rule. One tier
 * responds: the edge tier, or else the region tier. A region tier also replaces an edge tier that cannot run, so both
 * must use the same vector space.
 */
const embeddingFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  ...modelFields,
  task: z.literal("embedding"),
  input: textFields(artifact).input,
  /** Length of the graph's vectors. */
  dimensions: z.int().min(1).max(65_536),
  /** Whether vectors are scaled to length 1. */
  normalize: z.boolean().default(true),
  /** Never present; declared so that all tasks have the field. */
  labels: z.undefined().optional(),
});

const tiersSchema = <Tier extends z.ZodType<PlacedTier>>(tier: Tier) =>
  z.array(tier).min(1).max(8).superRefine(checkTierOrder);
const cascadeSchema = <Tier extends z.ZodType<PlacedTier & ExitingTier & ResumingTier>>(
  tier: Tier,
) => tiersSchema(tier).superRefine(checkExitRules).superRefine(checkResumptions);
const encodersSchema = <Tier extends z.ZodType<PlacedTier & EncoderTier>>(tier: Tier) =>
  tiersSchema(tier).superRefine(checkEncoderOutputs);
const imageCascadeSchema = <
  Tier extends z.ZodType<PlacedTier & ExitingTier & ResumingTier & ImageTier>,
>(
  tier: Tier,
) => cascadeSchema(tier).superRefine(checkImageInputs);

/**
 * Renames `normalise`, the former name of an embedding model's `normalize`. It applies to parsed JSON only, so
 * signatures and digests still cover the original bytes.
 */
export function renameFormerFields(json: unknown): unknown {
  const isFormer =
    typeof json === "object" &&
    json !== null &&
    "task" in json &&
    json.task === "embedding" &&
    "normalise" in json &&
    !("normalize" in json);
  if (!isFormer) return json;
  const { normalise, ...fields } = json;
  return { ...fields, normalize: normalise };
}

const versionField = { version: versionNumberSchema };
const snapshotField = { snapshot: snapshotRefSchema.optional() };

const textManifestSchema = z.strictObject({
  ...textFields(artifactRefSchema),
  ...versionField,
  tiers: cascadeSchema(
    classificationTierSchema(artifactRefSchema, textPreprocessorSchema(artifactRefSchema)).extend(
      snapshotField,
    ),
  ),
});
const imageManifestSchema = z.strictObject({
  ...imageFields(artifactRefSchema),
  ...versionField,
  tiers: imageCascadeSchema(
    classificationTierSchema(artifactRefSchema, imagePreprocessorSchema).extend(snapshotField),
  ),
});
const tensorManifestSchema = z.strictObject({
  ...tensorFields(artifactRefSchema),
  ...versionField,
  tiers: tiersSchema(z.strictObject({ ...tierFields(artifactRefSchema), ...snapshotField })),
});
const embeddingManifestSchema = z.strictObject({
  ...embeddingFields(artifactRefSchema),
  ...versionField,
  tiers: encodersSchema(embeddingTierSchema(artifactRefSchema).extend(snapshotField)),
});

export const manifestSchema = z.preprocess(
  renameFormerFields,
  z.discriminatedUnion("task", [
    textManifestSchema,
    imageManifestSchema,
    tensorManifestSchema,
    embeddingManifestSchema,
  ]),
);
export type Manifest = z.output<typeof manifestSchema>;
export type TierManifest = Manifest["tiers"][number];
export type TextClassificationManifest = z.output<typeof textManifestSchema>;
export type ImageClassificationManifest = z.output<typeof imageManifestSchema>;
export type ClassificationManifest = TextClassificationManifest | ImageClassificationManifest;
export type TextClassificationTier = TextClassificationManifest["tiers"][number];
export type ImageClassificationTier = ImageClassificationManifest["tiers"][number];
export type ClassificationTier = TextClassificationTier | ImageClassificationTier;
export type TensorManifest = z.output<typeof tensorManifestSchema>;
export type EmbeddingManifest = z.output<typeof embeddingManifestSchema>;
export type EmbeddingTier = EmbeddingManifest["tiers"][number];
/** A manifest whose task defines the inputs, unlike the task `tensor`. */
export type TaskManifest = ClassificationManifest | EmbeddingManifest;
export type TaskTier = TaskManifest["tiers"][number];
export type PreprocessorSpec = ClassificationTier["preprocessor"];

const pathSchema = z.string().min(1);

/** Schema of `model.json` in a model project, whose file references are paths relative to it. */
export const modelProjectSchema = z.preprocess(
  renameFormerFields,
  z.discriminatedUnion("task", [
    z.strictObject({
      ...textFields(pathSchema),
      tiers: cascadeSchema(
        classificationTierSchema(pathSchema, textPreprocessorSchema(pathSchema)),
      ),
    }),
    z.strictObject({
      ...imageFields(pathSchema),
      tiers: imageCascadeSchema(classificationTierSchema(pathSchema, imagePreprocessorSchema)),
    }),
    z.strictObject({
      ...tensorFields(pathSchema),
      tiers: tiersSchema(z.strictObject(tierFields(pathSchema))),
    }),
    z.strictObject({
      ...embeddingFields(pathSchema),
      tiers: encodersSchema(embeddingTierSchema(pathSchema)),
    }),
  ]),
);
export type ModelProject = z.output<typeof modelProjectSchema>;
export type TextClassificationProject = Extract<
  ModelProject,
  { readonly task: "text-classification" }
>;
export type ImageClassificationProject = Extract<
  ModelProject,
  { readonly task: "image-classification" }
>;
export type ClassificationProject = TextClassificationProject | ImageClassificationProject;
export type EmbeddingProject = Extract<ModelProject, { readonly task: "embedding" }>;

export const isClassificationProject = (project: ModelProject): project is ClassificationProject =>
  project.task === "text-classification" || project.task === "image-classification";
