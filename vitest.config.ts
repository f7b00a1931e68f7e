// Test projects: `node` runs in Node, `edge` inside workerd.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "node",
          include: ["test/**/*.test.ts"],
          exclude: ["test/edge/**", "test/e2e/**"],
          testTimeout: 20_000,
        },
      },
    ],
  },
});
