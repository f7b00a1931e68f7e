// Test projects: `node` runs in Node, `edge` inside workerd, `e2e` against the whole running system.
import { availableParallelism } from "node:os";
import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    maxWorkers: Math.max(2, availableParallelism() - 1), // much of a test's time is waiting for processes that it starts
    reporters: ["default", ["json", { outputFile: "dist/test-results.json" }]],
    projects: [
      {
        test: {
          name: "node",
          include: ["test/**/*.test.ts"],
          exclude: ["test/edge/**", "test/e2e/**"],
          testTimeout: 20_000,
        },
      },
      {
        plugins: [
          cloudflareTest({
            miniflare: {
              compatibilityDate: "2026-10-01",
              compatibilityFlags: ["nodejs_compat", "enable_request_signal"], // nodejs_compat: the test runner needs it; the Worker itself runs without
              r2Buckets: ["MODELS"],
              modulesRules: [
                { type: "CompiledWasm", include: ["**/*.wasm"] },
                { type: "Data", include: ["**/*.onnx", "**/*.bin"] },
              ],
            },
          }),
        ],
        // One isolate for all files: each of them would import the same for 8 seconds again.
        test: {
          name: "edge",
          isolate: false,
          include: ["test/edge/**/*.test.ts"],
          globalSetup: "test/edge/global-setup.ts",
          testTimeout: 30_000,
        },
      },
      {
        // After all others, and one by one: what is timed here is to have the machine to itself.
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          fileParallelism: false,
          isolate: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
