// How a region serves a tier's graph: sessions, batching, warm-up. A manifest may say it, and a region's own configuration
// for a model, which goes before the manifest's; what neither says is the region's default. Names and meanings are those of
// Triton's model configuration (ModelDynamicBatching, ModelQueuePolicy, ModelWarmup), with units.

import * as z from "zod";
import { executionProviderSchema } from "../core/execution-provider.ts";
import { DATATYPES } from "../core/tensor.ts";

const rowCountSchema = z.int().min(1).max(65_536);
const microsecondsSchema = z.int().min(0).max(600_000_000);

/** Every field may be left out. */
export const queueConfigSchema = z
  .strictObject({
    /** What becomes of a request whose timeout passes while it waits: an error, or a place behind all others of its priority. */
    timeoutAction: z.enum(["reject", "delay"]),
    /** 0: none. */
    defaultTimeoutUs: microsecondsSchema,
    /** Whether a request's own timeout counts; it can only shorten the default. */
    allowTimeoutOverride: z.boolean(),
    /** Rows that may wait. */
    maxQueueSize: z.int().min(1).max(1_000_000),
    /** From 1, the highest. */
    priorityLevels: z.int().min(1).max(64),
    defaultPriorityLevel: z.int().min(1).max(64),
  })
  .partial();

/** Every field may be left out. */
export const batchingConfigSchema = z
  .strictObject({
    /** `off`: a run for each request; `fixed`: Triton's rules; `adaptive`: what is learned of the model and its load. */
    mode: z.enum(["off", "fixed", "adaptive"]),
    /** Rows of one shared run. */
    maxBatchRows: rowCountSchema,
    /** `fixed`: sizes that go at once. */
    preferredBatchRows: z.array(rowCountSchema).max(64),
    /** `fixed`: how long the oldest may wait for others while a session is free. */
    maxQueueDelayUs: microsecondsSchema,
    /**
     * The graph's answer for a row does not depend on how far it is padded: rows of different lengths may share a run.
     * `axis` from 1; `buckets` ascending, lengths to pad to, by default the longest row's. What a preprocessor encodes here
     * has axis and value of its own, and takes the buckets only.
     */
    padding: z.strictObject({
      axis: z.int().min(1).max(31),
      value: z.number().default(0),
      buckets: z.array(z.int().min(1)).max(64).optional(),
    }),
    queue: queueConfigSchema,
  })
  .partial();

const warmupInputSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({
    datatype: z.enum(DATATYPES),
    /** Without the batch dimension. */
    shape: z.array(z.int().min(0)).max(31),
    /** A file holds one row's elements, as in a raw binary request. */
    data: z.union([z.enum(["zero", "random"]), z.strictObject({ file: artifact })]),
  });

/** Runs that every session instance makes before its model is ready. */
const warmupSampleSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({
    name: z.string().min(1).max(128),
    /** One run, or one for each size. */
    batchRows: z.union([rowCountSchema, z.array(rowCountSchema).min(1).max(64)]).default(1),
    /** How often each run is made. */
    count: z.int().min(1).max(10_000).default(1),
    /** By the graph's names; the task's example, or zeros, where left out. */
    inputs: z.record(z.string(), warmupInputSchema(artifact)).optional(),
  });

/** @param artifact how a file is named: by path, or by digest */
export const servingConfigSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z
    .strictObject({
      /** In the order in which they are tried. */
      executionProviders: z.array(executionProviderSchema).min(1).max(8),
      graphOptimization: z.enum(["disabled", "basic", "extended", "all"]),
      /** Threads of one operator; 0 leaves it to ONNX Runtime. */
      intraOpThreads: z.int().min(0).max(1_024),
      /** Sessions that run at the same time. */
      instances: z.int().min(1).max(64),
      batching: batchingConfigSchema,
      warmup: z.array(warmupSampleSchema(artifact)).max(64),
    })
    .partial();

export type QueueConfig = z.output<typeof queueConfigSchema>;
export type BatchingConfig = z.output<typeof batchingConfigSchema>;
/** `File` is what names a file. */
export type WarmupSample<File> = Omit<
  z.output<ReturnType<typeof warmupSampleSchema<z.ZodString>>>,
  "inputs"
> & {
  readonly inputs?:
    | Readonly<
        Record<
          string,
          Omit<z.output<ReturnType<typeof warmupInputSchema<z.ZodString>>>, "data"> & {
            readonly data: "zero" | "random" | { readonly file: File };
          }
        >
      >
    | undefined;
};
export type ServingConfig<File> = Omit<
  z.output<ReturnType<typeof servingConfigSchema<z.ZodString>>>,
  "warmup"
> & { readonly warmup?: readonly WarmupSample<File>[] | undefined };

/** Field by field, also within `batching` and its queue: the first that says something counts. */
export function mergeServingConfigs<File>(
  ...configs: readonly (ServingConfig<File> | undefined)[]
): ServingConfig<File> {
  return configs.reduceRight<ServingConfig<File>>((below, config) => {
    const batching = {
      ...below.batching,
      ...config?.batching,
      queue: { ...below.batching?.queue, ...config?.batching?.queue },
    };
    return { ...below, ...config, batching };
  }, {});
}

/** The same with its files named in another way. */
export function mapServingFiles<From, To>(
  config: ServingConfig<From>,
  name: (file: From) => To,
): ServingConfig<To> {
  const { warmup: samples, ...rest } = config;
  if (samples === undefined) return rest;
  const renamed = samples.map(({ inputs, ...sample }): WarmupSample<To> => {
    if (inputs === undefined) return sample;
    const entries = Object.entries(inputs).map(
      ([input, one]) =>
        [
          input,
          { ...one, data: typeof one.data === "string" ? one.data : { file: name(one.data.file) } },
        ] as const,
    );
    return { ...sample, inputs: Object.fromEntries(entries) };
  });
  return { ...rest, warmup: renamed };
}
