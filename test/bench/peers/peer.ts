// The port of other servers of ONNX models, to compare the region with.
import type { TensorSpec } from "../../../src/core/tensor.ts";
import type { Target } from "../region/target.ts";

/** A model for a peer, with one thread per operator. */
export interface PeerModel {
  readonly name: string;
  /** Path of the .onnx file. */
  readonly graph: string;
  /** The first dimension is the batch. */
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly maxBatchRows: number;
}

/** How long a request may wait for others, and how many sessions run. */
export interface PeerSetting {
  readonly maxQueueDelayUs: number;
  readonly instances: number;
}

export interface Peer {
  readonly name: string;
  readonly versions: Readonly<Record<string, string>>;
  /** Whether it takes tensors as bytes; JSON otherwise. */
  readonly supportsBinaryTensors: boolean;
  /** Those that are tried; its best counts. */
  readonly settings: readonly PeerSetting[];
  /** @throws if it does not come up */
  start(model: PeerModel, setting: PeerSetting): Promise<Target>;
}

/** The Python environment that peers run in. */
export interface PythonEnvironment {
  readonly executable: string;
  readonly version: string;
  /** Folder of its scripts. */
  readonly scripts: string;
  readonly packages: string;
  /** Folder of libpython. */
  readonly libraries: string;
  /** Versions of the relevant installed packages. */
  readonly versions: Readonly<Record<string, string>>;
}
