// Types of the modules that toolchain-worker.ts resolves under the prefix "sandbox:".

declare module "sandbox:*.wasm" {
  const module: WebAssembly.Module;
  export default module;
}

declare module "sandbox:glue.mjs" {
  const factory: import("../../../runtime/wasm/ort-glue.ts").GlueFactory;
  export default factory;
}
