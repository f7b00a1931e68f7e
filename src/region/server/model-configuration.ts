// Describes a loaded version as a Triton model configuration, for the default tier. The field `edgetier` holds what Triton has
// no term for, for every tier: the execution provider in use, and why others are not.

import type { ExecutionProvider } from "../../core/execution-provider.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import {
  type ExecutionAccelerator,
  type ModelDynamicBatching,
  type ModelQueuePolicy,
  type ModelConfigTensor,
  type ModelWarmup,
  type ModelConfig,
  toTritonDatatype,
} from "../../protocol/model-config.ts";
import type { ArtifactRef } from "../../registry/manifest.ts";
import type { BatchingConfig, ServingConfig, WarmupSample } from "../../registry/serving-config.ts";
import type { PriorityLevelPolicy } from "./batching/batch-queue.ts";
import { resolveSchedulerConfig, type SchedulerConfig } from "./batching/scheduler-config.ts";
import type { LoadedRegionModel, LoadedRegionTier } from "./load-region-model.ts";
import { defaultTierOf, declaredInputsOf } from "./model-inputs.ts";
import type { ProviderReport } from "./provider-fallback.ts";
import type { VersionPolicy } from "./version-policy.ts";

export interface RegionModelConfiguration extends ModelConfig {
  readonly edgetier: {
    readonly version: number;
    readonly task: string;
    readonly deadlineMs: number;
    /** Memory that counts for eviction. */
    readonly bytes: number;
    /** In cascade order. Requests select a tier with the parameter `tier`. */
    readonly tiers: readonly ConfiguredTier[];
  };
}

export interface ConfiguredTier {
  readonly id: string;
  /** Precision of the published graph; a provider may run the FP16 version. */
  readonly precision: string;
  readonly graphBytes: number;
  readonly instances: number;
  readonly batching: string;
  /** Id of the edge tier whose work this tier can resume. */
  readonly resumes?: string;
  /** In the order in which they are tried. */
  readonly providers: readonly ProviderReport[];
}

/** Levels of Triton's ONNX Runtime backend; 0 means unspecified, which enables all. */
const OPTIMIZATION_LEVELS = { disabled: 2, basic: -1, extended: 1, all: 0 } as const;

export function toModelConfiguration(
  model: LoadedRegionModel,
  versions: VersionPolicy,
): RegionModelConfiguration {
  const { manifest, tiers } = model;
  const tier = defaultTierOf(model);
  const { serving } = tier;
  const inputs = declaredInputsOf(manifest, tier.manifest);
  const { outputs } = tier.manifest;
  const schedulerConfig = resolveSchedulerConfig(serving.batching);
  const isBatched = [...tier.manifest.inputs, ...outputs].every(({ shape }) => shape[0] === -1);
  return {
    name: manifest.model,
    platform: "onnxruntime_onnx",
    backend: "onnxruntime",
    version_policy:
      versions === "all"
        ? { all: {} }
        : "latest" in versions
          ? { latest: { num_versions: versions.latest } }
          : { specific: { versions: versions.specific } },
    max_batch_size: isBatched ? schedulerConfig.maxBatchRows : 0,
    input: inputs.map((spec) => toConfiguredTensor(spec, isBatched)),
    output: outputs.map((spec) => ({ ...toConfiguredTensor(spec, isBatched), label_filename: "" })),
    optimization: {
      graph: { level: OPTIMIZATION_LEVELS[serving.graphOptimization ?? "all"] },
      execution_accelerators: {
        gpu_execution_accelerator: (serving.executionProviders ?? []).flatMap(toAccelerators),
        cpu_execution_accelerator: [],
      },
    },
    instance_group: [
      {
        name: `${manifest.model}_${tier.manifest.id}`,
        count: instanceCountOf(tier),
        ...instanceKindOf(tier),
      },
    ],
    ...(isBatched && schedulerConfig.isBatchingEnabled
      ? { dynamic_batching: toConfiguredBatching(schedulerConfig, serving.batching) }
      : {}),
    model_warmup: (serving.warmup ?? []).flatMap(toConfiguredWarmups),
    parameters:
      serving.intraOpThreads === undefined
        ? {}
        : { intra_op_thread_count: { string_value: String(serving.intraOpThreads) } },
    edgetier: {
      version: manifest.version,
      task: manifest.task,
      deadlineMs: manifest.deadlineMs,
      bytes: model.memoryBytes,
      tiers: tiers.map(toConfiguredTier),
    },
  };
}

function toConfiguredTensor(
  { name, datatype, shape }: TensorSpec,
  isBatched: boolean,
): ModelConfigTensor {
  return { name, data_type: toTritonDatatype(datatype), dims: isBatched ? shape.slice(1) : shape };
}

/** Triton has no name for `webgpu`; the CPU is not an accelerator. */
function toAccelerators({ name, ...options }: ExecutionProvider): ExecutionAccelerator[] {
  if (name === "cpu") return [];
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return [
    { name, parameters: Object.fromEntries(given.map(([key, value]) => [key, String(value)])) },
  ];
}

function instanceKindOf({
  providerReports,
  serving,
}: LoadedRegionTier): Pick<ModelConfig["instance_group"][number], "kind" | "gpus"> {
  const used = providerReports.find(({ state }) => state === "used")?.name ?? "cpu";
  if (used === "cpu") return { kind: "KIND_CPU", gpus: [] };
  const provider = serving.executionProviders?.find(({ name }) => name === used);
  return {
    kind: "KIND_GPU",
    gpus: [provider !== undefined && "deviceId" in provider ? (provider.deviceId ?? 0) : 0],
  };
}

/** `adaptive` batching has no preferred sizes and no delay. */
function toConfiguredBatching(
  { queue }: SchedulerConfig,
  { mode, preferredBatchRows = [], maxQueueDelayUs = 0 }: BatchingConfig = {},
): ModelDynamicBatching {
  const isFixed = mode !== "adaptive";
  return {
    preferred_batch_size: isFixed ? preferredBatchRows : [],
    max_queue_delay_microseconds: isFixed ? maxQueueDelayUs : 0,
    preserve_ordering: false,
    priority_levels: queue.priorityLevels,
    default_priority_level: queue.defaultPriority,
    default_queue_policy: toConfiguredQueuePolicy(queue),
    priority_queue_policy: Object.fromEntries(
      [...(queue.overridesByPriority ?? [])].map(([level, overrides]) => [
        level,
        toConfiguredQueuePolicy({ ...queue, ...overrides }),
      ]),
    ),
  };
}

function toConfiguredQueuePolicy({
  timeoutAction,
  defaultTimeoutMs,
  allowTimeoutOverride,
  maxQueueSize,
}: PriorityLevelPolicy): ModelQueuePolicy {
  return {
    timeout_action: timeoutAction === "reject" ? "REJECT" : "DELAY",
    default_timeout_microseconds: Math.round(defaultTimeoutMs * 1_000),
    allow_timeout_override: allowTimeoutOverride,
    max_queue_size: maxQueueSize,
  };
}

function toConfiguredWarmups({
  name,
  batchRows,
  count,
  inputs = {},
}: WarmupSample<ArtifactRef>): ModelWarmup[] {
  const described = Object.entries(inputs).map(([input, { datatype, shape, data }]) => {
    const kind =
      data === "zero"
        ? { zero_data: true as const }
        : data === "random"
          ? { random_data: true as const }
          : { input_data_file: data.file.sha256 };
    return [input, { data_type: toTritonDatatype(datatype), dims: shape, ...kind }] as const;
  });
  return [batchRows]
    .flat()
    .map((rows) => ({ name, batch_size: rows, count, inputs: Object.fromEntries(described) }));
}

function toConfiguredTier(tier: LoadedRegionTier): ConfiguredTier {
  const { manifest, serving, providerReports, resumption } = tier;
  return {
    id: manifest.id,
    precision: manifest.precision,
    graphBytes: manifest.graph.size,
    instances: instanceCountOf(tier),
    batching: serving.batching?.mode ?? "fixed",
    ...(resumption === undefined ? {} : { resumes: resumption.edgeTier }),
    providers: providerReports,
  };
}

const instanceCountOf = ({
  session,
  serving,
}: {
  readonly session: LoadedRegionTier["session"];
  readonly serving: ServingConfig<ArtifactRef>;
}) => session.concurrency ?? serving.instances ?? 1;
