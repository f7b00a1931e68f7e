// Deployment: output of `edgetier engine build` that the Worker bundles. dist/edge/deployment.mjs exports one.

import type { EngineModule } from "./engine.ts";
import type { SnapshotHeadRef } from "./snapshot-format.ts";

/** Bundled snapshot of a first tier, which the Worker restores at module scope. */
export interface BundledSnapshot {
  /** SHA-256 of the graph. */
  readonly graph: string;
  readonly head: SnapshotHeadRef;
  readonly bytes: ArrayBuffer;
}

/** Bundled WebAssembly image codecs for tasks/image/image-decoder.ts. */
export interface BundledImageCodecs {
  readonly modules: { readonly jpeg: WebAssembly.Module; readonly png: WebAssembly.Module };
  /** Memory limit for decoding one image. */
  readonly maxMemoryBytes: number;
}

export interface Deployment {
  readonly engine: EngineModule;
  /** Full engine in addition to a cut one, for models without a region tier. */
  readonly fallback: EngineModule | undefined;
  readonly bundled: readonly BundledSnapshot[];
  /** Labels and preprocessor files by SHA-256, so that a new isolate does not fetch them. */
  readonly artifacts: ReadonlyMap<string, ArrayBuffer>;
  /** Undefined if no edge tier accepts images. */
  readonly images?: BundledImageCodecs | undefined;
  /** Number of inferences at module scope after restoring, so that V8 optimizes the code earlier. */
  readonly warmUpRuns: number;
  /** Limit of WebAssembly memory for all sessions together, and so for each. */
  readonly sessionBudgetBytes: number;
}
