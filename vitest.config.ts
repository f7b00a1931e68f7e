// Test projects: `node` runs in Node, `edge` inside workerd, `e2e` against the running system; `slow` and `timed` are left
// out of `npm test` and belong to `npm run test:all`.

import { availableParallelism } from "node:os";
import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { SLOW_FILES, TIMED_FILES } from "./test/support/slow-tests.ts";

/** Much of a test's time is waiting for processes that it starts. */
const maxWorkers = Math.max(2, availableParallelism() - 1);
const setupFiles = ["test/support/property-runs.ts"];

/** Files of a worker share their imports: reloading the modules took a quarter of the time of the pure folders. */
const node = {
  test: {
    name: "node",
    isolate: false,
    include: ["test/**/*.test.ts"],
    exclude: ["test/edge/**", "test/e2e/**", ...SLOW_FILES],
    setupFiles,
    testTimeout: 20_000,
  },
};

const slow = {
  test: {
    name: "slow",
    include: SLOW_FILES,
    setupFiles,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
};

const edge = {
  plugins: [
    cloudflareTest({
      miniflare: {
        compatibilityDate: "2026-10-01",
        compatibilityFlags: ["nodejs_compat", "enable_request_signal"], // nodejs_compat is for the test runner; the Worker itself runs without
        r2Buckets: ["MODELS"],
        modulesRules: [
          { type: "CompiledWasm", include: ["**/*.wasm"] },
          { type: "Data", include: ["**/*.onnx", "**/*.bin"] },
        ],
      },
    }),
  ],
  // One isolate for all files, because each of them would import the same modules for 8 seconds.
  test: {
    name: "edge",
    isolate: false,
    include: ["test/edge/**/*.test.ts"],
    globalSetup: "test/edge/global-setup.ts",
    testTimeout: 30_000,
  },
};

const systemTest = { testTimeout: 60_000, hookTimeout: 120_000, isolate: false };

const e2e = {
  test: {
    ...systemTest,
    name: "e2e",
    include: ["test/e2e/**/*.test.ts"],
    exclude: [...SLOW_FILES, ...TIMED_FILES],
    sequence: { groupOrder: 1 },
  },
};

const timed = {
  test: {
    ...systemTest,
    name: "timed",
    include: TIMED_FILES,
    fileParallelism: false,
    sequence: { groupOrder: 2 },
  },
};

export default defineConfig({
  test: {
    maxWorkers,
    reporters: [
      "default",
      ["json", { outputFile: "dist/test-results.json" }],
      "./test/support/slowest-files-reporter.ts",
    ],
    coverage: {
      provider: "v8",
      include: ["src/**/*.ts"],
      exclude: ["src/toolchain/onnx/proto/**"],
      reporter: ["text-summary", "json-summary"],
      reportsDirectory: "dist/coverage",
      reportOnFailure: true,
    },
    projects: [node, edge, slow, e2e, timed],
  },
});
