// What `edgetier engine build` makes for the Worker to bundle: dist/edge/deployment.mjs exports one of these.

import type { EngineModule } from "./engine.ts";
import type { SnapshotHeadRef } from "./snapshot-format.ts";

/** A snapshot that the Worker brings along: of a first tier, restored at module scope. */
export interface BundledSnapshot {
  /** SHA-256 of the graph. */
  readonly graph: string;
  readonly head: SnapshotHeadRef;
  readonly bytes: ArrayBuffer;
}

/** What decodes images at this edge: for tasks/image/image-decoder.ts. */
export interface BundledImageCodecs {
  readonly modules: { readonly jpeg: WebAssembly.Module; readonly png: WebAssembly.Module };
  /** Of memory that decoding one image may take. */
  readonly maxMemoryBytes: number;
}

export interface Deployment {
  readonly engine: EngineModule;
  /** A full engine beside a cut one: for models that no region could answer for. */
  readonly fallback: EngineModule | undefined;
  readonly bundled: readonly BundledSnapshot[];
  /** Labels and preprocessors' files, by SHA-256: a cold isolate does not fetch them. */
  readonly artifacts: ReadonlyMap<string, ArrayBuffer>;
  /** Undefined where no edge tier takes images. */
  readonly images?: BundledImageCodecs | undefined;
  /** Inferences at module scope after restoring, so that the code is optimised earlier. */
  readonly warmUpRuns: number;
  /** WebAssembly memory of all sessions together, and so of each. */
  readonly sessionBudgetBytes: number;
}
