// The manifest: the JSON that describes one immutable version of a model. The zod schema is the one source of its type.

import * as z from "zod";
import { calibration, exitRule, riskRecord } from "./manifest/calibration.ts";
import {
  aliasName,
  type ArtifactRef,
  artifactRef,
  modelName,
  sha256,
  tensorSpec,
  versionNumber,
} from "./manifest/names.ts";
import { imagePreprocessor, textPreprocessor, wordpiece } from "./manifest/preprocessors.ts";
import {
  checkExits,
  checkOrder,
  checkPixels,
  checkResumptions,
  checkVectors,
  type ExitOrder,
  type GivesVectors,
  type Resumes,
  type TakesPixels,
  type TierOrder,
} from "./manifest/tier-checks.ts";
import { servingConfig, type ServingConfig } from "./serving-config.ts";

export * from "./manifest/calibration.ts";
export * from "./manifest/names.ts";

const tierId = z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/);

/** The rest of a region tier's graph, for what an edge tier has computed the first part of. */
const resumption = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({
    /** Id of that edge tier. */
    tier: tierId,
    /** From `inputs` to the region tier's outputs. */
    graph: artifact,
    /** Each has the name of an output of the edge tier, or else of an input of it. */
    inputs: z.array(tensorSpec).min(1),
  });

export type Resumption = z.output<ReturnType<typeof resumption<typeof artifactRef>>>;

const tierFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  id: tierId,
  place: z.enum(["edge", "region"]),
  /** Of `graph`. */
  precision: z.enum(["fp32", "fp16", "int8"]),
  graph: artifact,
  /** The same in FP16, for a region's execution providers that run it faster. */
  fp16Graph: artifact.optional(),
  /** Of the graph. */
  inputs: z.array(tensorSpec).min(1),
  outputs: z.array(tensorSpec).min(1),
  serving: servingConfig(artifact).optional(),
  /**
   * Within which 95 % of its answers to one input came where it was calibrated, without the way there: what a deadline counts with until
   * whoever serves it knows better.
   */
  p95Ms: z.number().positive().optional(),
  /** Measured when the tier was made; names carry units. */
  figures: z.record(z.string(), z.number()).default({}),
});

const classificationTier = <Artifact extends z.ZodType, Preprocessor extends z.ZodType>(
  artifact: Artifact,
  preprocessor: Preprocessor,
) =>
  z.strictObject({
    ...tierFields(artifact),
    preprocessor,
    /** Of the FP32 [batch, labels] output that is named `logits`. */
    calibration,
    /** The answer is accepted from this confidence on, and never at 1; null for the last tier, whose answer is always taken. */
    exit: exitRule.nullable(),
    /** How this region tier goes on from where an edge tier is; it answers to the task's own input all the same. */
    resumes: resumption(artifact).optional(),
  });

const embeddingTier = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({
    ...tierFields(artifact),
    preprocessor: wordpiece(artifact),
    /** Of the FP32 output `output`: `graph` is [batch, dimensions], a vector each; the others are [batch, tokens, dimensions], and the vector is the mean over the text's tokens, or the first token's. */
    pooling: z.enum(["graph", "mean", "cls"]),
    output: z.string().min(1),
  });

/** An engine's memory with the tier's graph open in it (runtime/wasm/snapshot-format.ts). */
export const snapshotRef = z.strictObject({
  artifact: artifactRef,
  /** Of everything before the chunks. */
  head: z.strictObject({ sha256, size: z.int().min(1).max(16_777_216) }),
  /** SHA-256 of the full engine that it was made with. */
  engine: sha256,
  /** Functions that running the graph enters (runtime/wasm/function-set.ts): an engine without them cannot serve it. */
  functions: z.base64(),
  memoryBytes: z.int().min(1),
});
export type SnapshotRef = z.output<typeof snapshotRef>;

export const SLO_CLASSES_MS = [10, 50, 100, 200, 500] as const;

/** The fields that a model project and a manifest share; they differ in how a file is named: by path or by digest. */
const modelFields = {
  schemaVersion: z.literal(1),
  model: modelName,
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
  risk: riskRecord.optional(),
  task: z.literal("text-classification"),
  /** A JSON array of the labels, in the order of the logits. */
  labels: artifact,
  /** How well confidences fit, and what other exits would do (protocol/report.ts). */
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

const tiersOf = <Tier extends z.ZodType<TierOrder>>(oneTier: Tier) =>
  z.array(oneTier).min(1).max(8).superRefine(checkOrder);
const cascadeOf = <Tier extends z.ZodType<TierOrder & ExitOrder & Resumes>>(oneTier: Tier) =>
  tiersOf(oneTier).superRefine(checkExits).superRefine(checkResumptions);
const encodersOf = <Tier extends z.ZodType<TierOrder & GivesVectors>>(oneTier: Tier) =>
  tiersOf(oneTier).superRefine(checkVectors);
const imageCascadeOf = <Tier extends z.ZodType<TierOrder & ExitOrder & Resumes & TakesPixels>>(
  oneTier: Tier,
) => cascadeOf(oneTier).superRefine(checkPixels);

const published = { version: versionNumber };
const withSnapshot = { snapshot: snapshotRef.optional() };

const textManifest = z.strictObject({
  ...textFields(artifactRef),
  ...published,
  tiers: cascadeOf(
    classificationTier(artifactRef, textPreprocessor(artifactRef)).extend(withSnapshot),
  ),
});
const imageManifest = z.strictObject({
  ...imageFields(artifactRef),
  ...published,
  tiers: imageCascadeOf(classificationTier(artifactRef, imagePreprocessor).extend(withSnapshot)),
});
const tensorManifest = z.strictObject({
  ...tensorFields(artifactRef),
  ...published,
  tiers: tiersOf(z.strictObject({ ...tierFields(artifactRef), ...withSnapshot })),
});
const embeddingManifest = z.strictObject({
  ...embeddingFields(artifactRef),
  ...published,
  tiers: encodersOf(embeddingTier(artifactRef).extend(withSnapshot)),
});

export const manifestSchema = z.discriminatedUnion("task", [
  textManifest,
  imageManifest,
  tensorManifest,
  embeddingManifest,
]);
export type Manifest = z.output<typeof manifestSchema>;
export type TierManifest = Manifest["tiers"][number];
export type TextClassificationManifest = z.output<typeof textManifest>;
export type ImageClassificationManifest = z.output<typeof imageManifest>;
export type ClassificationManifest = TextClassificationManifest | ImageClassificationManifest;
export type TextClassificationTier = TextClassificationManifest["tiers"][number];
export type ImageClassificationTier = ImageClassificationManifest["tiers"][number];
export type ClassificationTier = TextClassificationTier | ImageClassificationTier;
export type TensorManifest = z.output<typeof tensorManifest>;
export type EmbeddingManifest = z.output<typeof embeddingManifest>;
export type EmbeddingTier = EmbeddingManifest["tiers"][number];
/** Of a model whose task has inputs of its own. */
export type TaskManifest = ClassificationManifest | EmbeddingManifest;
export type TaskTier = TaskManifest["tiers"][number];
export type PreprocessorSpec = ClassificationTier["preprocessor"];

const path = z.string().min(1);

/** `model.json` of a model project: artifacts are paths relative to the file. */
export const modelProjectSchema = z.discriminatedUnion("task", [
  z.strictObject({
    ...textFields(path),
    tiers: cascadeOf(classificationTier(path, textPreprocessor(path))),
  }),
  z.strictObject({
    ...imageFields(path),
    tiers: imageCascadeOf(classificationTier(path, imagePreprocessor)),
  }),
  z.strictObject({ ...tensorFields(path), tiers: tiersOf(z.strictObject(tierFields(path))) }),
  z.strictObject({ ...embeddingFields(path), tiers: encodersOf(embeddingTier(path)) }),
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

export const isClassification = (project: ModelProject): project is ClassificationProject =>
  project.task === "text-classification" || project.task === "image-classification";

/** Every artifact that a manifest needs, without repeats. */
export function artifactsOf(manifest: Manifest): ArtifactRef[] {
  const snapshots = manifest.tiers.flatMap(({ snapshot }) =>
    snapshot === undefined ? [] : [snapshot.artifact],
  );
  return [
    ...new Map(
      [...filesOf<ArtifactRef>(manifest), ...snapshots].map((ref) => [ref.sha256, ref]),
    ).values(),
  ];
}

interface NamesFiles<File> {
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
export function filesOf<File>({ labels, report, tiers }: NamesFiles<File>): File[] {
  const ofTiers = tiers.flatMap(({ graph, fp16Graph, preprocessor: own, resumes, serving }) => [
    graph,
    fp16Graph,
    own?.artifact,
    resumes?.graph,
    ...warmupFiles(serving),
  ]);
  return [labels, ...ofTiers, report].filter((file) => file !== undefined);
}

function warmupFiles<File>(serving: ServingConfig<File> | undefined): File[] {
  const inputs = (serving?.warmup ?? []).flatMap((sample) => Object.values(sample.inputs ?? {}));
  return inputs.flatMap(({ data }) => (typeof data === "object" ? [data.file] : []));
}

/** `{"stable": {"version": 2, "previous": [1]}, "canary": {"version": 3, "weight": 0.05}}`; a number is a version and no more. */
export const aliasesSchema = z.record(
  aliasName,
  z.union([
    versionNumber,
    z.strictObject({
      version: versionNumber,
      /** The share of the requests to the default alias that it takes. */
      weight: z.number().min(0).max(1).optional(),
      /** What it named before, the last one first. */
      previous: z.array(versionNumber).max(100).optional(),
    }),
  ]),
);
export type Aliases = z.output<typeof aliasesSchema>;
export type AliasTarget = Aliases[string];

export function aliasedVersion(target: AliasTarget): number {
  return typeof target === "number" ? target : target.version;
}
