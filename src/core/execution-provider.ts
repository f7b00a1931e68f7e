// Configuration schema of ONNX Runtime's execution providers and their options.
//
// The schema accepts an option only if it reaches the provider. onnxruntime-node 1.30 creates the CUDA and TensorRT
// providers with a device only. TensorRT also ignores its ORT_TENSORRT_* variables on that call path
// (microsoft/onnxruntime, issues 18380 and 26854). The schema rejects other well-known options with the reason.

import * as z from "zod";

const deviceIdSchema = z.int().min(0).max(255).default(0);
/** Precision of the graph for this provider, if the tier has both. List a provider twice to try both precisions. */
const precisionSchema = z.enum(["fp32", "fp16"]);
const unsupportedOption = (remedy: string) =>
  z.never({ error: `onnxruntime-node cannot set this option; ${remedy}` }).optional();
const tritonOnlyOption = unsupportedOption(
  "omit it, or serve the model with Triton, which supports it",
);

/** One entry of a list in order of preference. The CPU is always the last resort, even if it is not listed. */
export const executionProviderSchema = z.discriminatedUnion("name", [
  z.strictObject({
    name: z.literal("cpu"),
    /** Whether ONNX Runtime keeps freed memory for the next run. */
    arena: z.boolean().default(true),
  }),
  z.strictObject({
    name: z.literal("webgpu"),
    /** Defaults to fp32, because not every adapter has 16-bit floats. */
    precision: precisionSchema.default("fp32"),
    preferredLayout: z.enum(["NCHW", "NHWC"]).optional(),
    deviceId: unsupportedOption(
      "select the adapter with VK_DRIVER_FILES or MESA_VK_DEVICE_SELECT in the server's environment",
    ),
  }),
  z.strictObject({
    name: z.literal("cuda"),
    deviceId: deviceIdSchema,
    precision: precisionSchema.default("fp16"),
    memoryLimitBytes: unsupportedOption(
      "partition the GPU with MIG, or with CUDA_MPS_PINNED_DEVICE_MEM_LIMIT under MPS",
    ),
    arena: tritonOnlyOption,
  }),
  z.strictObject({
    name: z.literal("tensorrt"),
    deviceId: deviceIdSchema,
    /** Selects the graph only: onnxruntime-node cannot set TensorRT's own FP16 switch. */
    precision: precisionSchema.default("fp32"),
    workspaceBytes: tritonOnlyOption,
    engineCacheDirectory: tritonOnlyOption,
    timingCacheDirectory: tritonOnlyOption,
  }),
]);
export type ExecutionProvider = z.output<typeof executionProviderSchema>;
export type ExecutionProviderName = ExecutionProvider["name"];
export type FloatPrecision = z.output<typeof precisionSchema>;

export const DEFAULT_EXECUTION_PROVIDER: ExecutionProvider = { name: "cpu", arena: true };
