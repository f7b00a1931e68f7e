// Types of `cloudflare:test`: the bindings that the test runner provides in workerd.

declare module "cloudflare:test" {
  export const env: { readonly MODELS: import("../../src/registry/drivers/r2.ts").R2BucketLike };
}
