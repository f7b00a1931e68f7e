// What workshop.ts puts in place of these names.

declare module "workshop:*.wasm" {
  const module: WebAssembly.Module;
  export default module;
}

declare module "workshop:glue.mjs" {
  const factory: import("../../../runtime/wasm/glue.ts").GlueFactory;
  export default factory;
}
