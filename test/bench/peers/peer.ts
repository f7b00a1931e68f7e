// Port: other servers of ONNX models, which are compared with the region.
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

/** Maximum wait for other requests of a batch, and the number of sessions. */
export interface PeerSetting {
  readonly maxQueueDelayUs: number;
  readonly instances: number;
}

export interface Peer {
  readonly name: string;
  readonly versions: Readonly<Record<string, string>>;
  /** Whether the peer accepts tensors as bytes; JSON otherwise. */
  readonly supportsBinaryTensors: boolean;
  /** Settings that are tried; the best one counts. */
  readonly settings: readonly PeerSetting[];
  /** @throws if the peer does not start */
  start(model: PeerModel, setting: PeerSetting): Promise<Target>;
}

/** The Python environment that peers run in. */
export interface PythonEnvironment {
  readonly executable: string;
  readonly version: string;
  /** Folder of the scripts. */
  readonly scripts: string;
  readonly packages: string;
  /** Folder of libpython. */
  readonly libraries: string;
  /** Versions of the relevant installed packages. */
  readonly versions: Readonly<Record<string, string>>;
}
