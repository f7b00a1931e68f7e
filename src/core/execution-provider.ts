// ONNX Runtime's execution providers and their options, as a configuration names them.
//
// An option is here only if it reaches the provider. onnxruntime-node 1.30 makes the CUDA and the TensorRT provider with a
// device and nothing else, by a call for which TensorRT does not read its ORT_TENSORRT_* variables either
// (microsoft/onnxruntime, issues 18380 and 26854). What a user would look for and cannot have is refused with the reason.

import * as z from "zod";

const deviceIdSchema = z.int().min(0).max(255).default(0);
/** Of the graph that runs there, where a tier has both. To try both on one provider, name it twice. */
const precisionSchema = z.enum(["fp32", "fp16"]);
const unsupportedOption = (remedy: string) =>
  z.never({ error: `onnxruntime-node cannot pass this on; ${remedy}` }).optional();
const tritonOnlyOption = unsupportedOption(
  "leave it out, or serve the model with Triton, which can",
);

/** In the order in which they are tried; the CPU need not be named, it is always the last. */
export const executionProviderSchema = z.discriminatedUnion("name", [
  z.strictObject({
    name: z.literal("cpu"),
    /** Keeps freed memory for the next run. */
    arena: z.boolean().default(true),
  }),
  z.strictObject({
    name: z.literal("webgpu"),
    /** Not every adapter has 16-bit floats. */
    precision: precisionSchema.default("fp32"),
    preferredLayout: z.enum(["NCHW", "NHWC"]).optional(),
    deviceId: unsupportedOption(
      "choose the adapter with VK_DRIVER_FILES or MESA_VK_DEVICE_SELECT in the server's environment",
    ),
  }),
  z.strictObject({
    name: z.literal("cuda"),
    deviceId: deviceIdSchema,
    precision: precisionSchema.default("fp16"),
    memoryLimitBytes: unsupportedOption(
      "divide the GPU with MIG, or with CUDA_MPS_PINNED_DEVICE_MEM_LIMIT under MPS",
    ),
    arena: tritonOnlyOption,
  }),
  z.strictObject({
    name: z.literal("tensorrt"),
    deviceId: deviceIdSchema,
    /** TensorRT's own switch for 16 bits is among what cannot be passed on. */
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
