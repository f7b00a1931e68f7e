// ONNX Runtime's execution providers and their options, as a configuration names them.
//
// An option is here only if it reaches the provider. onnxruntime-node 1.30 makes the CUDA and the TensorRT provider with a
// device and nothing else, by a call for which TensorRT does not read its ORT_TENSORRT_* variables either
// (microsoft/onnxruntime, issues 18380 and 26854). What a user would look for and cannot have is refused with the reason.

import * as z from "zod";

const deviceId = z.int().min(0).max(255).default(0);
/** Of the graph that runs there, where a tier has both. To try both on one provider, name it twice. */
const precision = z.enum(["fp32", "fp16"]);
const notPassedOn = (remedy: string) =>
  z.never({ error: `onnxruntime-node cannot pass this on; ${remedy}` }).optional();
const servedByTriton = notPassedOn("leave it out, or serve the model with Triton, which can");

/** In the order in which they are tried; the CPU need not be named, it is always the last. */
export const executionProvider = z.discriminatedUnion("name", [
  z.strictObject({
    name: z.literal("cpu"),
    /** Keeps freed memory for the next run. */
    arena: z.boolean().default(true),
  }),
  z.strictObject({
    name: z.literal("webgpu"),
    /** Not every adapter has 16-bit floats. */
    precision: precision.default("fp32"),
    preferredLayout: z.enum(["NCHW", "NHWC"]).optional(),
    deviceId: notPassedOn(
      "choose the adapter with VK_DRIVER_FILES or MESA_VK_DEVICE_SELECT in the server's environment",
    ),
  }),
  z.strictObject({
    name: z.literal("cuda"),
    deviceId,
    precision: precision.default("fp16"),
    memoryLimitBytes: notPassedOn(
      "divide the GPU with MIG, or with CUDA_MPS_PINNED_DEVICE_MEM_LIMIT under MPS",
    ),
    arena: servedByTriton,
  }),
  z.strictObject({
    name: z.literal("tensorrt"),
    deviceId,
    /** TensorRT's own switch for 16 bits is among what cannot be passed on. */
    precision: precision.default("fp32"),
    workspaceBytes: servedByTriton,
    engineCacheDirectory: servedByTriton,
    timingCacheDirectory: servedByTriton,
  }),
]);
export type ExecutionProvider = z.output<typeof executionProvider>;
export type ExecutionProviderName = ExecutionProvider["name"];
export type Precision = z.output<typeof precision>;

export const DEFAULT_PROVIDER: ExecutionProvider = { name: "cpu", arena: true };
