// What a native session can be told, and how onnxruntime-node is told it.

import type { InferenceSession } from "onnxruntime-node";
import type { ExecutionProvider } from "../../core/execution-provider.ts"; // only its types: a worker starts quicker without zod

/** Plain data: it crosses to a session's worker. */
export interface NativeSessionOptions {
  /** Of the session in events, such as the name of its model. */
  readonly label?: string | undefined;
  /** The CPU by default. */
  readonly provider?: ExecutionProvider | undefined;
  /** Threads that one operator may use; 0 leaves it to ONNX Runtime (one per physical core). */
  readonly intraOpThreads?: number | undefined;
  readonly graphOptimization?: "disabled" | "basic" | "extended" | "all" | undefined;
  /** The first run also finds out which provider runs how many nodes (`NativeSession.nodes`). It costs that run some time. */
  readonly countNodes?: boolean | undefined;
}

/** The first that says something counts, field by field. */
export function mergeSessionOptions(
  options: NativeSessionOptions | undefined,
  defaults: NativeSessionOptions | undefined,
): NativeSessionOptions {
  const said = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(said) };
}

/** Only fatal messages: failures come as exceptions, and are logged once, by who handles them. */
const LOG_SEVERITY_FATAL = 4;
/** A folder that is not there: a model may not read weights from files, which ONNX would let it name by path. */
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
        // ONNX Runtime's threads would wait for the next run by turning over, at the cost of every other thread: at 100
        // requests a second on 2 cores, p99 was 11.5 ms with it and 6.6 ms without (measured).
        intra_op: { allow_spinning: "0" },
      },
    },
  };
}

/** Nodes that none of them can run go to the CPU. */
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
