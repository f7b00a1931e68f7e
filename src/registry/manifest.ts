// The manifest: the JSON that describes one immutable version of a model. The zod schema is the one source of its type.

import * as z from "zod";
import { calibrationSchema, exitRuleSchema, riskGuaranteeSchema } from "./manifest/calibration.ts";
import {
  aliasNameSchema,
  type ArtifactRef,
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
import { servingConfigSchema, type ServingConfig } from "./serving-config.ts";

export * from "./manifest/calibration.ts";
export * from "./manifest/common-schemas.ts";

const tierIdSchema = z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/);

/** The rest of a region tier's graph, for what an edge tier has computed the first part of. */
const resumptionSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({
    /** Id of that edge tier. */
    tier: tierIdSchema,
    /** From `inputs` to the region tier's outputs. */
    graph: artifact,
    /** Each has the name of an output of the edge tier, or else of an input of it. */
    inputs: z.array(tensorSpecSchema).min(1),
  });

export type Resumption = z.output<ReturnType<typeof resumptionSchema<typeof artifactRefSchema>>>;

const tierFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  id: tierIdSchema,
  place: z.enum(["edge", "region"]),
  /** Of `graph`. */
  precision: z.enum(["fp32", "fp16", "int8"]),
  graph: artifact,
  /** The same in FP16, for a region's execution providers that run it faster. */
  fp16Graph: artifact.optional(),
  /** Of the graph. */
  inputs: z.array(tensorSpecSchema).min(1),
  outputs: z.array(tensorSpecSchema).min(1),
  serving: servingConfigSchema(artifact).optional(),
  /**
   * Within which 95 % of its answers to one input came where it was calibrated, without the way there: what a deadline counts with until
   * whoever serves it knows better.
   */
  p95Ms: z.number().positive().optional(),
  /** Measured when the tier was made; names carry units. */
  figures: z.record(z.string(), z.number()).default({}),
});

const classificationTierSchema = <Artifact extends z.ZodType, Preprocessor extends z.ZodType>(
  artifact: Artifact,
  preprocessor: Preprocessor,
) =>
  z.strictObject({
    ...tierFields(artifact),
    preprocessor,
    /** Of the FP32 [batch, labels] output that is named `logits`. */
    calibration: calibrationSchema,
    /** The answer is accepted from this confidence on, and never at 1; null for the last tier, whose answer is always taken. */
    exit: exitRuleSchema.nullable(),
    /** How this region tier goes on from where an edge tier is; it answers to the task's own input all the same. */
    resumes: resumptionSchema(artifact).optional(),
  });

const embeddingTierSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({
    ...tierFields(artifact),
    preprocessor: wordpiecePreprocessorSchema(artifact),
    /** Of the FP32 output `output`: `graph` is [batch, dimensions], a vector each; the others are [batch, tokens, dimensions], and the vector is the mean over the text's tokens, or the first token's. */
    pooling: z.enum(["graph", "mean", "cls"]),
    output: z.string().min(1),
  });

/** An engine's memory with the tier's graph open in it (runtime/wasm/snapshot-format.ts). */
export const snapshotRefSchema = z.strictObject({
  artifact: artifactRefSchema,
  /** Of everything before the chunks. */
  head: z.strictObject({ sha256: sha256Schema, size: z.int().min(1).max(16_777_216) }),
  /** SHA-256 of the full engine that it was made with. */
  engine: sha256Schema,
  /** Functions that running the graph enters (runtime/wasm/function-set.ts): an engine without them cannot serve it. */
  functions: z.base64(),
  memoryBytes: z.int().min(1),
});
export type SnapshotRef = z.output<typeof snapshotRefSchema>;

export const SLO_CLASSES_MS = [10, 50, 100, 200, 500] as const;

/** The fields that a model project and a manifest share; they differ in how a file is named: by path or by digest. */
const modelFields = {
  schemaVersion: z.literal(1),
  model: modelNameSchema,
  description: z.string().default(""),
  /** The deadline of a request that names none. */
  deadlineMs: z.int().min(1).max(600_000),
  /** The latency class: the p99 of an answer's computing, over all tiers that it asks. `model eval` checks it. */
  sloMs: z.literal(SLO_CLASSES_MS).optional(),
  figures: z.record(z.string(), z.number()).default({}),
  provenance: z.record(z.string(), z.json()).default({}),
};

const textFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  ...modelFields,
  risk: riskGuaranteeSchema.optional(),
  task: z.literal("text-classification"),
  /** A JSON array of the labels, in the order of the logits. */
  labels: artifact,
  /** How well confidences fit, and what other exits would do (protocol/model-report.ts). */
  report: artifact.optional(),
  input: z.strictObject({ maxBytes: z.int().min(1).max(1_048_576) }),
});

const imageFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  ...textFields(artifact),
  task: z.literal("image-classification"),
  /** Of a JPEG or PNG file, and of its pixels as stored. */
  input: z.strictObject({
    maxBytes: z.int().min(1).max(33_554_432),
    maxPixels: z.int().min(1).max(16_777_216),
  }),
});

/** A plain graph: its tensors in, its tensors out, over the Open Inference Protocol. */
const tensorFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  ...modelFields,
  task: z.literal("tensor"),
  /** For the protocol's classification extension. */
  labels: artifact.optional(),
});

/**
 * A text becomes a vector. A vector has no confidence, so that there is nothing to exit by: one tier answers, the edge's if there is one,
 * else the region's. A region tier beside an edge tier answers where the edge's cannot be run: its vectors must be of the same space.
 */
const embeddingFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  ...modelFields,
  task: z.literal("embedding"),
  input: textFields(artifact).input,
  /** Of a vector as the graph gives it. */
  dimensions: z.int().min(1).max(65_536),
  /** Whether a vector is scaled to length 1. */
  normalise: z.boolean().default(true),
  /** There are none. */
  labels: z.undefined().optional(),
});

const tiersSchema = <Tier extends z.ZodType<PlacedTier>>(oneTier: Tier) =>
  z.array(oneTier).min(1).max(8).superRefine(checkTierOrder);
const cascadeSchema = <Tier extends z.ZodType<PlacedTier & ExitingTier & ResumingTier>>(
  oneTier: Tier,
) => tiersSchema(oneTier).superRefine(checkExitRules).superRefine(checkResumptions);
const encodersSchema = <Tier extends z.ZodType<PlacedTier & EncoderTier>>(oneTier: Tier) =>
  tiersSchema(oneTier).superRefine(checkEncoderOutputs);
const imageCascadeSchema = <
  Tier extends z.ZodType<PlacedTier & ExitingTier & ResumingTier & ImageTier>,
>(
  oneTier: Tier,
) => cascadeSchema(oneTier).superRefine(checkImageInputs);

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

export const manifestSchema = z.discriminatedUnion("task", [
  textManifestSchema,
  imageManifestSchema,
  tensorManifestSchema,
  embeddingManifestSchema,
]);
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
/** Of a model whose task has inputs of its own. */
export type TaskManifest = ClassificationManifest | EmbeddingManifest;
export type TaskTier = TaskManifest["tiers"][number];
export type PreprocessorSpec = ClassificationTier["preprocessor"];

const pathSchema = z.string().min(1);

/** `model.json` of a model project: artifacts are paths relative to the file. */
export const modelProjectSchema = z.discriminatedUnion("task", [
  z.strictObject({
    ...textFields(pathSchema),
    tiers: cascadeSchema(classificationTierSchema(pathSchema, textPreprocessorSchema(pathSchema))),
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
]);
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

/** Every artifact that a manifest needs, without repeats. */
export function listArtifacts(manifest: Manifest): ArtifactRef[] {
  const snapshots = manifest.tiers.flatMap(({ snapshot }) =>
    snapshot === undefined ? [] : [snapshot.artifact],
  );
  return [
    ...new Map(
      [...listFiles<ArtifactRef>(manifest), ...snapshots].map((ref) => [ref.sha256, ref]),
    ).values(),
  ];
}

interface FileReferences<File> {
  readonly labels?: File | undefined;
  readonly report?: File | undefined;
  readonly tiers: readonly {
    readonly graph: File;
    readonly fp16Graph?: File | undefined;
    readonly preprocessor?: { readonly kind: string; readonly artifact?: File };
    readonly resumes?: { readonly graph: File } | undefined;
    readonly serving?: ServingConfig<File> | undefined;
  }[];
}

/** What a manifest's or a project's fields name as files, snapshots aside. */
export function listFiles<File>({ labels, report, tiers }: FileReferences<File>): File[] {
  const ofTiers = tiers.flatMap(({ graph, fp16Graph, preprocessor: own, resumes, serving }) => [
    graph,
    fp16Graph,
    own?.artifact,
    resumes?.graph,
    ...listWarmupFiles(serving),
  ]);
  return [labels, ...ofTiers, report].filter((file) => file !== undefined);
}

function listWarmupFiles<File>(serving: ServingConfig<File> | undefined): File[] {
  const inputs = (serving?.warmup ?? []).flatMap((sample) => Object.values(sample.inputs ?? {}));
  return inputs.flatMap(({ data }) => (typeof data === "object" ? [data.file] : []));
}

/** `{"stable": {"version": 2, "previous": [1]}, "canary": {"version": 3, "weight": 0.05}}`; a number is a version and no more. */
export const aliasesSchema = z.record(
  aliasNameSchema,
  z.union([
    versionNumberSchema,
    z.strictObject({
      version: versionNumberSchema,
      /** The share of the requests to the default alias that it takes. */
      weight: z.number().min(0).max(1).optional(),
      /** What it named before, the last one first. */
      previous: z.array(versionNumberSchema).max(100).optional(),
    }),
  ]),
);
export type Aliases = z.output<typeof aliasesSchema>;
export type AliasTarget = Aliases[string];

export function aliasedVersion(target: AliasTarget): number {
  return typeof target === "number" ? target : target.version;
}
