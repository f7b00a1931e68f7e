// Where candidates are judged: the runtime that would serve them. Drivers: node-runner.ts, harness/workerd-runner.ts.

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
  /** Of `runs` runs, one after the other, without what it takes to ask for them. */
  measureMeanMs(inputs: NamedTensors, runs: number): Promise<number>;
  /** After what has been run so far; undefined where the runtime cannot tell. */
  memoryBytes(): number | undefined;
  close(): Promise<void>;
}
