// Triton's model configuration extension: response of `GET /v2/models/{model}[/versions/{version}]/config`. The types
// contain the fields of Triton's ModelConfig that EdgeTier uses
// (github.com/triton-inference-server/common, protobuf/model_config.proto).

import type { Datatype } from "../core/tensor.ts";

export type TritonDatatype = `TYPE_${Exclude<Datatype, "BYTES"> | "STRING"}`;

export interface ModelConfigTensor {
  readonly name: string;
  readonly data_type: TritonDatatype;
  /** Shape, without the batch dimension if `max_batch_size` is positive. */
  readonly dims: readonly number[];
}

export interface ModelWarmup {
  readonly name: string;
  readonly batch_size: number;
  readonly count: number;
  /** Each input has exactly one of the three kinds of data. */
  readonly inputs: Readonly<
    Record<
      string,
      {
        readonly data_type: TritonDatatype;
        readonly dims: readonly number[];
        readonly zero_data?: true;
        readonly random_data?: true;
        readonly input_data_file?: string;
      }
    >
  >;
}

export interface ModelDynamicBatching {
  readonly preferred_batch_size: readonly number[];
  readonly max_queue_delay_microseconds: number;
  readonly preserve_ordering: boolean;
  readonly priority_levels: number;
  readonly default_priority_level: number;
  readonly default_queue_policy: ModelQueuePolicy;
  /** Policies by priority level, if they differ from the default. */
  readonly priority_queue_policy: Readonly<Record<string, ModelQueuePolicy>>;
}

export interface ModelQueuePolicy {
  readonly timeout_action: "REJECT" | "DELAY";
  readonly default_timeout_microseconds: number;
  readonly allow_timeout_override: boolean;
  readonly max_queue_size: number;
}

export interface ModelConfig {
  readonly name: string;
  readonly platform: string;
  readonly backend: string;
  readonly version_policy:
    | { readonly latest: { readonly num_versions: number } }
    | { readonly all: object }
    | { readonly specific: { readonly versions: readonly number[] } };
  /** 0 if the model does not support batches. */
  readonly max_batch_size: number;
  readonly input: readonly ModelConfigTensor[];
  readonly output: readonly (ModelConfigTensor & { readonly label_filename: string })[];
  readonly optimization: {
    readonly graph: { readonly level: number };
    readonly execution_accelerators: {
      readonly gpu_execution_accelerator: readonly ExecutionAccelerator[];
      readonly cpu_execution_accelerator: readonly ExecutionAccelerator[];
    };
  };
  readonly instance_group: readonly {
    readonly name: string;
    readonly kind: "KIND_CPU" | "KIND_GPU";
    readonly count: number;
    readonly gpus: readonly number[];
  }[];
  /** Absent if requests do not share runs. */
  readonly dynamic_batching?: ModelDynamicBatching;
  readonly model_warmup: readonly ModelWarmup[];
  readonly parameters: Readonly<Record<string, { readonly string_value: string }>>;
}

export interface ExecutionAccelerator {
  readonly name: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export const toTritonDatatype = (datatype: Datatype): TritonDatatype =>
  datatype === "BYTES" ? "TYPE_STRING" : `TYPE_${datatype}`;
