// The official Python client, unchanged, against the region. Needs `pip install "tritonclient[http]"` for the python3 on the
// PATH, or for the one that EDGETIER_TEST_PYTHON names; it is skipped elsewhere.
import { execFile, execFileSync } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { startRegionServer } from "../../src/region/server/server.ts";
import { createRegion, publish } from "./world.ts";

const python = process.env["EDGETIER_TEST_PYTHON"] ?? "python3";

function hasClient(): boolean {
  try {
    execFileSync(python, ["-c", "import tritonclient.http"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

describe.skipIf(!hasClient())("tritonclient (needs the Python package tritonclient[http])", () => {
  it("finds, asks and reads everything as it should be", async () => {
    const region = createRegion();
    await publish(region.store);
    await region.store.writeAliases("mood", { stable: 1 }, undefined);
    const server = await startRegionServer({ fetch: region.app.fetch, lifecycle: region.lifecycle, host: "127.0.0.1", port: 0, drainTimes: { lingerMs: 0, timeoutMs: 1_000 } });
    try {
      const { stdout } = await promisify(execFile)(python, [join(import.meta.dirname, "../clients/triton_client.py"), new URL(server.url).host]);
      const answers = [[1, 0], [0, 1], [3.5, -0.75]];
      expect(JSON.parse(stdout)).toEqual({
        live: true,
        ready: true,
        model_ready: true,
        no_model_ready: false,
        extensions: expect.arrayContaining(["binary_tensor_data", "classification"]),
        metadata: { name: "mood", versions: ["1"], platform: "onnxruntime_onnx", inputs: [{ name: "input", datatype: "BYTES", shape: [-1] }], outputs: [{ name: "logits", datatype: "FP32", shape: [-1, 2] }] },
        logits: [answers, answers, answers, answers],
        classes: ["1.000000:0:good", "1.000000:1:bad", "3.500000:0:good"],
        id: "r-1",
        gzip: answers,
        deflate: answers,
        own_tensors: [[2, -1]],
        refusals: {
          unknown_model: ["400", expect.stringContaining('no model "other"')],
          unknown_version: ["404", expect.stringContaining("no version 9")],
          unknown_output: ["400", expect.stringContaining("no such output")],
        },
      });
    } finally {
      await server.stop();
    }
  });
});
