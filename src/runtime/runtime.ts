// The runtime port: something that turns ONNX bytes into sessions. Drivers: wasm/ (edge), native/ (region).

import type { NamedTensors, TensorSpec } from "../core/tensor.ts";

export interface Session {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Bytes this session holds that a memory budget has to count; 0 where the runtime cannot tell. */
  readonly memoryBytes: number;
  /** Runs that it makes at the same time; 1 where it does not say. Further ones wait. */
  readonly concurrency?: number;
  /**
   * Runs the graph once. Calls may overlap: the session serialises them. Outputs are copies that stay valid.
   * @param inputs every declared input by name; the first dimension is the batch.
   * @throws invalid_tensor for a missing, unknown or misfitting input; session_failed where ONNX Runtime fails.
   */
  run(inputs: NamedTensors): Promise<NamedTensors>;
  /** Frees the session. Further runs fail with session_failed. */
  dispose(): Promise<void>;
}

export interface Runtime {
  readonly name: string;
  /** @throws session_failed if the bytes are not a model that this runtime can run. */
  createSession(model: Uint8Array): Promise<Session>;
}
