// What the test runner gives to tests inside workerd.

declare module "cloudflare:test" {
  export const env: { readonly MODELS: import("../../src/registry/drivers/r2.ts").R2BucketLike };
}
