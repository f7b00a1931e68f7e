// Serving configuration of a tier's graph in a region: sessions, batching, warm-up. A region's own configuration of a
// model overrides the manifest's, and both override the region's defaults. Names and meanings follow Triton's model
// configuration (ModelDynamicBatching, ModelQueuePolicy, ModelWarmup), with units.

import * as z from "zod";
import { executionProviderSchema } from "../core/execution-provider.ts";
import { DATATYPES } from "../core/tensor.ts";

const rowCountSchema = z.int().min(1).max(65_536);
const microsecondsSchema = z.int().min(0).max(600_000_000);

export const queueConfigSchema = z
  .strictObject({
    /** Action if a queued request times out: `reject` fails it; `delay` moves it behind all others of its priority. */
    timeoutAction: z.enum(["reject", "delay"]),
    /** Default timeout; 0 disables it. */
    defaultTimeoutUs: microsecondsSchema,
    /** Whether a request's own timeout can shorten the default. */
    allowTimeoutOverride: z.boolean(),
    /** Maximum number of queued rows. */
    maxQueueSize: z.int().min(1).max(1_000_000),
    /** Number of levels; 1 is the highest priority. */
    priorityLevels: z.int().min(1).max(64),
    defaultPriorityLevel: z.int().min(1).max(64),
  })
  .partial();

export const batchingConfigSchema = z
  .strictObject({
    /** `off`: one run per request; `fixed`: Triton's rules; `adaptive`: learned from the model and its load. */
    mode: z.enum(["off", "fixed", "adaptive"]),
    /** Maximum number of rows in a shared run. */
    maxBatchRows: rowCountSchema,
    /** Batch sizes that mode `fixed` runs immediately. */
    preferredBatchRows: z.array(rowCountSchema).max(64),
    /** Maximum time that mode `fixed` holds the oldest request for others while a session is free. */
    maxQueueDelayUs: microsecondsSchema,
    /**
     * Declares that padding does not change the output of a row, so that rows of different lengths can share a run.
     * `axis` starts at 1. `buckets` are ascending lengths to pad to, by default the longest row's length. Rows that a
     * preprocessor encodes use its axis and value, and only `buckets` applies to them.
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
    /** Shape without the batch dimension. */
    shape: z.array(z.int().min(0)).max(31),
    /** A file contains the elements of one row, as in a raw binary request. */
    data: z.union([z.enum(["zero", "random"]), z.strictObject({ file: artifact })]),
  });

/** Warm-up runs of each session instance before its model is ready. */
const warmupSampleSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({
    name: z.string().min(1).max(128),
    /** Batch size of the run, or one size per run. */
    batchRows: z.union([rowCountSchema, z.array(rowCountSchema).min(1).max(64)]).default(1),
    /** Number of repetitions of each run. */
    count: z.int().min(1).max(10_000).default(1),
    /** Inputs by graph input name; defaults to the task's example, or to zeros. */
    inputs: z.record(z.string(), warmupInputSchema(artifact)).optional(),
  });

/** @param artifact schema of a file reference: a path or a digest */
export const servingConfigSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z
    .strictObject({
      /** Execution providers, in order of preference. */
      executionProviders: z.array(executionProviderSchema).min(1).max(8),
      graphOptimization: z.enum(["disabled", "basic", "extended", "all"]),
      /** Threads per operator; 0 selects ONNX Runtime's default. */
      intraOpThreads: z.int().min(0).max(1_024),
      /** Number of concurrent sessions. */
      instances: z.int().min(1).max(64),
      batching: batchingConfigSchema,
      warmup: z.array(warmupSampleSchema(artifact)).max(64),
    })
    .partial();

export type QueueConfig = z.output<typeof queueConfigSchema>;
export type BatchingConfig = z.output<typeof batchingConfigSchema>;
/** `File` is the type of a file reference. */
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

/** Merges configurations field by field, also within `batching` and its queue; the first defined value wins. */
export function mergeServingConfigs<File>(
  ...configs: readonly (ServingConfig<File> | undefined)[]
): ServingConfig<File> {
  return configs.reduceRight<ServingConfig<File>>((defaults, config) => {
    const batching = {
      ...defaults.batching,
      ...config?.batching,
      queue: { ...defaults.batching?.queue, ...config?.batching?.queue },
    };
    return { ...defaults, ...config, batching };
  }, {});
}

/** Converts the file references of a configuration. */
export function mapServingFiles<From, To>(
  config: ServingConfig<From>,
  convert: (file: From) => To,
): ServingConfig<To> {
  const { warmup: samples, ...rest } = config;
  if (samples === undefined) return rest;
  const warmup = samples.map(({ inputs, ...sample }): WarmupSample<To> => {
    if (inputs === undefined) return sample;
    const entries = Object.entries(inputs).map(
      ([name, { data, ...input }]) =>
        [
          name,
          { ...input, data: typeof data === "string" ? data : { file: convert(data.file) } },
        ] as const,
    );
    return { ...sample, inputs: Object.fromEntries(entries) };
  });
  return { ...rest, warmup };
}
