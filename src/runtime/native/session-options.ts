// Options of a native session, and their conversion to onnxruntime-node's options.

import type { InferenceSession } from "onnxruntime-node";
// A type-only import, because a worker starts faster without zod.
import type { ExecutionProvider } from "../../core/execution-provider.ts";

/** Plain data, which is sent to a session's worker. */
export interface NativeSessionOptions {
  /** Label of the session in events, such as its model's name. */
  readonly label?: string | undefined;
  /** Execution provider, the CPU by default. */
  readonly provider?: ExecutionProvider | undefined;
  /** Threads per operator; 0 selects ONNX Runtime's default (one per physical core). */
  readonly intraOpThreads?: number | undefined;
  readonly graphOptimization?: "disabled" | "basic" | "extended" | "all" | undefined;
  /** Counts the nodes per provider (`NativeSession.nodes`) in the first run, which makes that run slower. */
  readonly countNodes?: boolean | undefined;
}

/** Merges options field by field; the first defined value wins. */
export function mergeSessionOptions(
  options: NativeSessionOptions | undefined,
  defaults: NativeSessionOptions | undefined,
): NativeSessionOptions {
  const defined = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(defined) };
}

/** Logs fatal messages only, because failures are exceptions, which their handlers log once. */
const LOG_SEVERITY_FATAL = 4;
/** A nonexistent folder, because a model must not read external weights, which ONNX references by path. */
const NONEXISTENT_FOLDER = "/nonexistent/edgetier";

export function toOrtOptions(options: NativeSessionOptions): InferenceSession.SessionOptions {
  const { provider, intraOpThreads = 0, graphOptimization = "all" } = options;
  return {
    executionProviders: toOrtProviders(provider),
    intraOpNumThreads: intraOpThreads,
    graphOptimizationLevel: graphOptimization,
    enableCpuMemArena: provider?.name !== "cpu" || provider.arena,
    logSeverityLevel: LOG_SEVERITY_FATAL,
    extra: {
      session: {
        model_external_initializers_file_folder_path: NONEXISTENT_FOLDER,
        // Idle threads of ONNX Runtime would spin, at the cost of all other threads. At 100 requests per second on 2
        // cores, p99 latency was 11.5 ms with spinning and 6.6 ms without it (measured).
        intra_op: { allow_spinning: "0" },
      },
    },
  };
}

/** Returns the providers in order; ONNX Runtime runs unsupported nodes on the CPU. */
function toOrtProviders(
  provider: ExecutionProvider | undefined,
): InferenceSession.ExecutionProviderConfig[] {
  switch (provider?.name) {
    case undefined:
    case "cpu":
      return ["cpu"];
    case "webgpu":
      return [
        {
          name: "webgpu",
          ...(provider.preferredLayout && { preferredLayout: provider.preferredLayout }),
        },
      ];
    case "cuda":
      return [{ name: "cuda", deviceId: provider.deviceId }];
    case "tensorrt":
      return [
        { name: "tensorrt", deviceId: provider.deviceId },
        { name: "cuda", deviceId: provider.deviceId },
      ];
  }
}
