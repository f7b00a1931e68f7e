// Types of the measurements that `edgetier doctor` takes of a deployment.

export interface FileSize {
  readonly bytes: number;
  readonly gzipBytes: number;
}

/** Sizes of the files that `wrangler deploy` uploads. */
export interface UploadSizes {
  readonly script: FileSize;
  readonly engine: FileSize;
  /** The full engine, if it is bundled in addition to a stripped one. */
  readonly fallback: FileSize | undefined;
  /** Absent if no edge tier takes images. */
  readonly imageDecoders?: FileSize | undefined;
  /** Snapshots, labels and preprocessor files. */
  readonly data: FileSize;
  readonly totalBytes: number;
}

/** Memory that counts against the platform's limit for one isolate. */
export interface IsolateMemory {
  /** Committed part of the V8 heap. */
  readonly heapBytes: number;
  /** Contents of ArrayBuffers, including the bundled data. */
  readonly bufferBytes: number;
  /** WebAssembly memory, which the sessions occupy. */
  readonly wasmBytes: number;
}

export interface MemoryMeasurements {
  /** Memory after one response of each model. */
  readonly cold: IsolateMemory;
  /** Memory after hundreds of requests. */
  readonly steady: IsolateMemory;
  /** Peak of the workerd process, minus that of an empty Worker; undefined if the platform does not report it. */
  readonly processBytes: number | undefined;
}

/** An edge tier, as the Worker reports it. */
export interface MeasuredGraph {
  readonly model: string;
  readonly tier: string;
  /** Two tiers with the same graph share one bundled snapshot. */
  readonly sha256: string;
  readonly status: "bundled" | "snapshot" | "plain" | "unsupported";
  /** @deprecated Use `status`; the JSON output keeps this field with its old values. */
  readonly how: "bundled" | "snapshot" | "plain" | "not";
  /** Why the edge does not serve the tier. */
  readonly reason?: string | undefined;
  /** Memory of the session at start; null if the tier has no snapshot to read it from. */
  readonly memoryBytes: number | null;
  /** Number of inputs that the tier ran while memory was measured; null if it ran none. */
  readonly measuredInputs: number | null;
}

export interface DeploymentMeasurements {
  readonly upload: UploadSizes;
  /** CPU time of the Worker's global scope. */
  readonly startupCpuMs: number;
  readonly memory: MemoryMeasurements;
  readonly graphs: readonly MeasuredGraph[];
}
