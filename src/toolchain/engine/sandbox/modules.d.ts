// What sandbox.ts puts in place of these names.

declare module "sandbox:*.wasm" {
  const module: WebAssembly.Module;
  export default module;
}

declare module "sandbox:glue.mjs" {
  const factory: import("../../../runtime/wasm/ort-glue.ts").GlueFactory;
  export default factory;
}
