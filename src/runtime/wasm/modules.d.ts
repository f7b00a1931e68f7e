// Module declarations for the engine's files and for bundled binary data.

declare module "*/engine.wasm" {
  const module: WebAssembly.Module;
  export default module;
}

declare module "*/glue.mjs" {
  const factory: import("./ort-glue.ts").GlueFactory;
  export default factory;
}

declare module "*.onnx" {
  const bytes: ArrayBuffer;
  export default bytes;
}

declare module "*/deployment.mjs" {
  const deployment: import("./deployment.ts").Deployment;
  export default deployment;
}
