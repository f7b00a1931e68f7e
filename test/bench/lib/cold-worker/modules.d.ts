// Modules that bundle-cold-workers.ts substitutes for one model and one startup kind.

declare module "cloudflare:workers" {
  /** Comma-separated seeds of the isolate's inputs. */
  export const env: { readonly SEEDS: string };
}

declare module "cold:input" {
  /** Creates a different input of the model for each seed. */
  export const createInput: (seed: number) => import("../../../../src/core/tensor.ts").NamedTensors;
}

declare module "cold:session" {
  /** Runs one inference. The first one opens the session, unless module scope has opened it. */
  export const runLogits: (
    input: import("../../../../src/core/tensor.ts").NamedTensors,
  ) => Promise<Float32Array>;
}

declare module "cold:engine.wasm" {
  const module: WebAssembly.Module;
  export default module;
}

/** The snapshot, or for `stock` the model. */
declare module "cold:image.bin" {
  const bytes: ArrayBuffer;
  export default bytes;
}

declare module "cold:glue.mjs" {
  const factory: import("../../../../src/runtime/wasm/ort-glue.ts").GlueFactory;
  export default factory;
}

/** Facts that match engine and snapshot, like in a deployment. */
declare module "cold:facts" {
  type Facts = {
    readonly source: string;
    readonly graph: string;
    readonly head: import("../../../../src/runtime/wasm/snapshot-format.ts").SnapshotHeadRef;
    readonly warmUpRuns: number;
    readonly sessionBudgetBytes: number;
  } & ({ readonly kind: "full" } | { readonly kind: "cut"; readonly functions: string });
  const facts: Facts;
  export default facts;
}
