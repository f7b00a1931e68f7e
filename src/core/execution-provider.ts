// ONNX Runtime's execution providers and their options, as a configuration names them.

import { z } from "zod";

const deviceId = z.int().min(0).max(255).default(0);
/** Of the graph that runs there, where a tier has both; a GPU takes the FP16 one by default. */
const precision = z.enum(["fp32", "fp16"]).default("fp16");
const memoryLimitBytes = z.int().min(1_048_576).optional();

/** In the order in which they are tried; the CPU need not be named, it is always the last. */
export const executionProvider = z.discriminatedUnion("name", [
  z.strictObject({
    name: z.literal("cpu"),
    /** Keeps freed memory for the next run. */
    arena: z.boolean().default(true),
  }),
  z.strictObject({ name: z.literal("webgpu"), deviceId, precision }),
  z.strictObject({ name: z.literal("cuda"), deviceId, precision, memoryLimitBytes }),
  z.strictObject({
    name: z.literal("tensorrt"),
    deviceId,
    precision,
    /** For TensorRT's own choice of kernels. */
    workspaceBytes: z.int().min(1_048_576).optional(),
    /** Kept across restarts: building an engine takes minutes. */
    engineCacheDirectory: z.string().min(1).optional(),
    timingCacheDirectory: z.string().min(1).optional(),
  }),
]);
export type ExecutionProvider = z.output<typeof executionProvider>;
