// The manifest: the JSON that describes one immutable version of a model. The zod schema is the one source of its type.

import * as z from "zod";
import { DATATYPES } from "../core/tensor.ts";
import { servingConfig, type ServingConfig } from "./serving-config.ts";

export const modelName = z.string().regex(/^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/, "must be 1 to 64 characters of a-z, 0-9, '-', '_', '.'");
export const aliasName = z.string().regex(/^[a-z][a-z0-9-]{0,31}$/, "must start with a letter; a-z, 0-9, '-'; at most 32 characters");
export const versionNumber = z.int().min(1).max(1_000_000_000);
export const sha256 = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in lower-case hex");

/** An immutable file of the store, addressed by its digest. `size` in bytes. */
export const artifactRef = z.strictObject({ sha256, size: z.int().min(1).max(2_147_483_647) });
export type ArtifactRef = z.output<typeof artifactRef>;

export const tensorSpec = z.strictObject({
  name: z.string().min(1),
  datatype: z.enum(DATATYPES),
  shape: z.array(z.int().min(-1)),
});

/**
 * How a confidence is read off the logits. Temperature: Guo et al. 2017, "On Calibration of Modern Neural Networks".
 * P(out of scope) = sigmoid(scale * (threshold - score)) for the scores that are large in scope, and
 * sigmoid(scale * (score - threshold)) for a score that the graph gives as an output, large out of scope.
 */
export const calibration = z.strictObject({
  temperature: z.number().positive(),
  outOfScope: z
    .strictObject({
      label: z.string().min(1),
      score: z.discriminatedUnion("kind", [
        z.strictObject({ kind: z.literal("maxProbability") }),
        z.strictObject({ kind: z.literal("maxLogit") }),
        z.strictObject({ kind: z.literal("energy") }),
        z.strictObject({ kind: z.literal("output"), output: z.string().min(1) }),
      ]),
      threshold: z.number(),
      scale: z.number().positive(),
    })
    .optional(),
});
export type Calibration = z.output<typeof calibration>;

const textPreprocessor = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("hashed-ngrams"), artifact }),
    z.strictObject({ kind: z.literal("wordpiece"), artifact, maxTokens: z.int().min(2).max(8192) }),
  ]);

const side = z.int().min(1).max(1_024);
const ofChannels = <Value extends z.ZodType>(value: Value) => z.tuple([value, value, value]);

/** Decoded to 8 bits a channel and turned as EXIF says; what is transparent becomes white. Colour profiles are not heeded. */
const imagePreprocessor = z.strictObject({
  kind: z.literal("image"),
  width: side,
  height: side,
  /** Of the graph's FP32 input `pixels`. */
  layout: z.literal("NCHW"),
  channels: z.literal("RGB"),
  /** A triangle filter that widens where the image shrinks, rounded to 8 bits: Pillow's Image.BILINEAR. */
  resize: z.literal("bilinear"),
  /** `stretch` takes the whole image; `cover` the largest part around its centre that has the ratio of width to height. */
  fit: z.enum(["stretch", "cover"]),
  /** Of each channel: (value / 255 - mean) / std. */
  mean: ofChannels(z.number()),
  std: ofChannels(z.number().positive()),
});

const tierFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  id: z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/),
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
  /** Measured when the tier was made; names carry units. */
  figures: z.record(z.string(), z.number()).default({}),
});

const classificationTier = <Artifact extends z.ZodType, Preprocessor extends z.ZodType>(artifact: Artifact, preprocessor: Preprocessor) =>
  z.strictObject({
    ...tierFields(artifact),
    preprocessor,
    /** Of the FP32 [batch, labels] output that is named `logits`. */
    calibration,
    /** The answer is accepted from this confidence on; null for the last tier, whose answer is always taken. */
    exit: z.strictObject({ confidence: z.number().min(0).max(1) }).nullable(),
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
  task: z.literal("text-classification"),
  /** A JSON array of the labels, in the order of the logits. */
  labels: artifact,
  input: z.strictObject({ maxBytes: z.int().min(1).max(1_048_576) }),
});

const imageFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  ...textFields(artifact),
  task: z.literal("image-classification"),
  /** Of a JPEG or PNG file, and of its pixels as stored. */
  input: z.strictObject({ maxBytes: z.int().min(1).max(33_554_432), maxPixels: z.int().min(1).max(16_777_216) }),
});

/** A plain graph: its tensors in, its tensors out, over the Open Inference Protocol. */
const tensorFields = <Artifact extends z.ZodType>(artifact: Artifact) => ({
  ...modelFields,
  task: z.literal("tensor"),
  /** For the protocol's classification extension. */
  labels: artifact.optional(),
});

const tiersOf = <Tier extends z.ZodType<TierOrder>>(oneTier: Tier) => z.array(oneTier).min(1).max(8).superRefine(checkOrder);
const cascadeOf = <Tier extends z.ZodType<TierOrder & ExitOrder>>(oneTier: Tier) => tiersOf(oneTier).superRefine(checkExits);
const imageCascadeOf = <Tier extends z.ZodType<TierOrder & ExitOrder & TakesPixels>>(oneTier: Tier) => cascadeOf(oneTier).superRefine(checkPixels);

interface TierOrder {
  readonly id: string;
  readonly place: string;
}

interface ExitOrder {
  readonly exit: object | null;
}

interface TakesPixels {
  readonly id: string;
  readonly inputs: readonly z.output<typeof tensorSpec>[];
  readonly preprocessor: { readonly width: number; readonly height: number };
}

/** Edge tiers first, ids unique. */
function checkOrder(tiers: readonly TierOrder[], context: z.RefinementCtx): void {
  const problem = (message: string) => context.addIssue({ code: "custom", message });
  if (new Set(tiers.map((one) => one.id)).size !== tiers.length) problem("tier ids must be unique");
  const firstRegion = tiers.findIndex((one) => one.place === "region");
  if (firstRegion >= 0 && tiers.slice(firstRegion).some((one) => one.place === "edge")) problem("edge tiers must come before region tiers");
}

/** All but the last with an exit rule. */
function checkExits(tiers: readonly (TierOrder & ExitOrder)[], context: z.RefinementCtx): void {
  tiers.forEach((one, index) => {
    const last = index === tiers.length - 1;
    if (last === (one.exit === null)) return;
    context.addIssue({ code: "custom", message: `tier ${one.id}: ${last ? "the last tier must have exit null" : "a tier before the last needs an exit rule"}` });
  });
}

/** What the preprocessor makes has to be what the graph takes. */
function checkPixels(tiers: readonly TakesPixels[], context: z.RefinementCtx): void {
  for (const { id, inputs, preprocessor } of tiers) {
    const made = [-1, 3, preprocessor.height, preprocessor.width];
    const [pixels, ...others] = inputs;
    const fits = pixels?.name === "pixels" && pixels.datatype === "FP32" && pixels.shape.length === made.length && pixels.shape.every((size, axis) => size === -1 || size === made[axis]);
    if (!fits || others.length > 0) context.addIssue({ code: "custom", message: `tier ${id}: its one input must be pixels, FP32 [${made.join(", ")}]` });
  }
}

const published = { version: versionNumber };
const withSnapshot = { snapshot: snapshotRef.optional() };

const textManifest = z.strictObject({ ...textFields(artifactRef), ...published, tiers: cascadeOf(classificationTier(artifactRef, textPreprocessor(artifactRef)).extend(withSnapshot)) });
const imageManifest = z.strictObject({ ...imageFields(artifactRef), ...published, tiers: imageCascadeOf(classificationTier(artifactRef, imagePreprocessor).extend(withSnapshot)) });
const tensorManifest = z.strictObject({ ...tensorFields(artifactRef), ...published, tiers: tiersOf(z.strictObject({ ...tierFields(artifactRef), ...withSnapshot })) });

export const manifestSchema = z.discriminatedUnion("task", [textManifest, imageManifest, tensorManifest]);
export type Manifest = z.output<typeof manifestSchema>;
export type TierManifest = Manifest["tiers"][number];
export type TextClassificationManifest = z.output<typeof textManifest>;
export type ImageClassificationManifest = z.output<typeof imageManifest>;
export type ClassificationManifest = TextClassificationManifest | ImageClassificationManifest;
export type TextClassificationTier = TextClassificationManifest["tiers"][number];
export type ImageClassificationTier = ImageClassificationManifest["tiers"][number];
export type ClassificationTier = TextClassificationTier | ImageClassificationTier;
export type TensorManifest = z.output<typeof tensorManifest>;
export type PreprocessorSpec = ClassificationTier["preprocessor"];

const path = z.string().min(1);

/** `model.json` of a model project: artifacts are paths relative to the file. */
export const modelProjectSchema = z.discriminatedUnion("task", [
  z.strictObject({ ...textFields(path), tiers: cascadeOf(classificationTier(path, textPreprocessor(path))) }),
  z.strictObject({ ...imageFields(path), tiers: imageCascadeOf(classificationTier(path, imagePreprocessor)) }),
  z.strictObject({ ...tensorFields(path), tiers: tiersOf(z.strictObject(tierFields(path))) }),
]);
export type ModelProject = z.output<typeof modelProjectSchema>;
export type TextClassificationProject = Extract<ModelProject, { readonly task: "text-classification" }>;
export type ImageClassificationProject = Extract<ModelProject, { readonly task: "image-classification" }>;
export type ClassificationProject = TextClassificationProject | ImageClassificationProject;

/** Every artifact that a manifest needs, without repeats. */
export function artifactsOf(manifest: Manifest): ArtifactRef[] {
  const snapshots = manifest.tiers.flatMap(({ snapshot }) => (snapshot === undefined ? [] : [snapshot.artifact]));
  return [...new Map([...filesOf<ArtifactRef>(manifest), ...snapshots].map((ref) => [ref.sha256, ref])).values()];
}

interface NamesFiles<File> {
  readonly labels?: File | undefined;
  readonly tiers: readonly {
    readonly graph: File;
    readonly fp16Graph?: File | undefined;
    readonly preprocessor?: { readonly kind: string; readonly artifact?: File };
    readonly serving?: ServingConfig<File> | undefined;
  }[];
}

/** What a manifest's or a project's fields name as files, snapshots aside. */
export function filesOf<File>({ labels, tiers }: NamesFiles<File>): File[] {
  const ofTiers = tiers.flatMap(({ graph, fp16Graph, preprocessor: own, serving }) => [graph, fp16Graph, own?.artifact, ...warmupFiles(serving)]);
  return [labels, ...ofTiers].filter((file) => file !== undefined);
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
