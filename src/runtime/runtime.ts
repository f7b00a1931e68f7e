// Runtime port: creates sessions from ONNX models. Drivers: wasm/ (edge), native/ (region).

import type { NamedTensors, TensorSpec } from "../core/tensor.ts";

export interface Session {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Memory of this session that a budget must count; 0 if the runtime cannot measure it. */
  readonly memoryBytes: number;
  /** Number of concurrent runs, 1 by default. Further runs wait. */
  readonly concurrency?: number;
  /**
   * Runs the graph once. Calls may overlap; the session serializes them. Outputs are copies that stay valid.
   * @param inputs every declared input by name; the first dimension is the batch
   * @throws invalid_tensor for a missing, unknown or mismatched input; session_failed if ONNX Runtime fails
   */
  run(inputs: NamedTensors): Promise<NamedTensors>;
  /** Frees the session. Further runs fail with session_failed. */
  dispose(): Promise<void>;
}

export interface Runtime {
  readonly name: string;
  /** @throws session_failed if this runtime cannot run the model */
  createSession(model: Uint8Array): Promise<Session>;
}
