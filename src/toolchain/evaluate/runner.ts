// Port: opens and runs graphs in the runtime that would serve them. Drivers: node-runner.ts, harness/workerd-runner.ts.

import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";

export interface Runner {
  readonly name: "workerd" | "node";
  /** @throws session_failed if the runtime cannot open the graph */
  open(graph: Uint8Array): Promise<RunnerSession>;
  close(): Promise<void>;
}

export interface RunnerSession {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** @throws session_failed */
  run(inputs: NamedTensors): Promise<NamedTensors>;
  /** Measures the mean time of `runs` serial runs, without the overhead of the call. */
  measureMeanMs(inputs: NamedTensors, runs: number): Promise<number>;
  /** Memory of the session after its runs so far; undefined if the runtime does not report it. */
  memoryBytes(): number | undefined;
  close(): Promise<void>;
}
