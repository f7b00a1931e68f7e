// Node runner: runs graphs in onnxruntime-node with one thread, as on a region's CPU.

import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import type { Runner } from "./runner.ts";

export function createNodeRunner(): Runner {
  const runtime = createNativeRuntime({ intraOpThreads: 1 });
  return {
    name: "node",
    async open(graph) {
      const session = await runtime.createSession(graph);
      return {
        inputs: session.inputs,
        outputs: session.outputs,
        run: (inputs) => session.run(inputs),
        async measureMeanMs(inputs, runs) {
          const startedAtMs = performance.now();
          for (let left = runs; left > 0; left--) await session.run(inputs);
          return (performance.now() - startedAtMs) / runs;
        },
        memoryBytes: () => undefined,
        close: () => session.dispose(),
      };
    },
    close: async () => {},
  };
}
