// What the doctor measures of a deployment.

export interface FileSize {
  readonly bytes: number;
  readonly gzipBytes: number;
}

/** What `wrangler deploy` uploads. */
export interface UploadSizes {
  readonly script: FileSize;
  readonly engine: FileSize;
  /** The full engine beside a cut one. */
  readonly fallback: FileSize | undefined;
  /** Absent where no edge tier takes images. */
  readonly imageDecoders?: FileSize | undefined;
  /** Snapshots, labels and preprocessors' files. */
  readonly data: FileSize;
  readonly totalBytes: number;
}

/** What counts against the platform's limit of one isolate. */
export interface IsolateMemory {
  /** Of JavaScript's heap, what V8 has committed. */
  readonly heapBytes: number;
  /** Contents of ArrayBuffers, the bundled data among them. */
  readonly bufferBytes: number;
  /** WebAssembly memory: the sessions. */
  readonly wasmBytes: number;
}

export interface MemoryMeasurements {
  /** When each model has answered once. */
  readonly cold: IsolateMemory;
  /** After hundreds of requests. */
  readonly steady: IsolateMemory;
  /** At most, of a workerd process, without what it takes for an empty Worker; undefined where the platform does not tell. */
  readonly processBytes: number | undefined;
}

/** An edge tier, as the Worker itself says that it serves it. */
export interface MeasuredGraph {
  readonly model: string;
  readonly tier: string;
  /** Two tiers of one graph share what is bundled. */
  readonly sha256: string;
  readonly how: "bundled" | "snapshot" | "plain" | "not";
  /** Why not. */
  readonly reason?: string | undefined;
  /** Of its session when it starts; null where it has no snapshot that tells. */
  readonly memoryBytes: number | null;
  /** Inputs that it was asked about while memory was measured; null where it was not. */
  readonly measuredInputs: number | null;
}

export interface DeploymentMeasurements {
  readonly upload: UploadSizes;
  /** CPU time of the global scope. */
  readonly startupCpuMs: number;
  readonly memory: MemoryMeasurements;
  readonly graphs: readonly MeasuredGraph[];
}
