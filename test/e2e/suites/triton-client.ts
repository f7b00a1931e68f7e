// The official Python client, unchanged, against a region and against an edge with that region behind it. Needs
// `pip install "tritonclient[http]"` for the python3 on the PATH, or for the one that EDGETIER_TEST_PYTHON names.
import { execFile, execFileSync } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { system } from "./shared-system.ts";

const python = process.env["EDGETIER_TEST_PYTHON"] ?? "python3";

function hasClient(): boolean {
  try {
    execFileSync(python, ["-c", "import tritonclient.http"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Expected results of the script, from the edge and from the region. */
const logits = [
  [6, 0],
  [0, 6],
];
const EXPECTED = {
  live: true,
  ready: true,
  models_ready: { toy: true, identity: true, words: true, matmul: true, far: true, nothing: false },
  version_ready: [true, false],
  metadata: {
    toy: {
      name: "toy",
      versions: ["1"],
      platform: "onnxruntime_onnx",
      inputs: [{ name: "input", datatype: "BYTES", shape: [-1] }],
      outputs: [{ name: "logits", datatype: "FP32", shape: [-1, 2] }],
    },
    matmul: {
      name: "matmul",
      versions: ["1"],
      platform: "onnxruntime_onnx",
      inputs: [{ name: "x", datatype: "UINT8", shape: [-1, 3] }],
      outputs: [{ name: "y", datatype: "INT32", shape: [-1, 2] }],
    },
    words: {
      name: "words",
      versions: ["1"],
      platform: "onnxruntime_onnx",
      inputs: [{ name: "x", datatype: "BYTES", shape: [-1] }],
      outputs: [{ name: "y", datatype: "BYTES", shape: [-1] }],
    },
  },
  changed: [],
  changed_texts: 0,
  logits: [logits, logits, logits, logits],
  classes: ["6.000000:0:yes", "6.000000:1:no"],
  tensor_classes: ["44:1:right", "2:0:left"],
  id: "r-1",
  answered_by: { model_name: "toy", model_version: "1" },
  compressed: [logits, logits],
  compressed_large: [true, true],
  chosen_outputs: ["int8_out", "bool_out"],
  chosen_values: [[0, 1, 2, -128, 127], [false, true, false, true, true], null],
  async: Array.from({ length: 20 }, (_, n) => [[10 - n, 20 + 8 * n]]),
  far: [[10, 20]],
  priority_and_timeout: [[2, 44]],
  one_tier: { tier: "region" },
  raw: [[[2, 44]], [[6, 0]]],
  made_by_hand: [true, true],
  refusals: {
    unknown_model: ["400", expect.stringContaining("unknown model: 'nothing'")],
    unknown_version: ["404", expect.stringContaining("'matmul' version 9")],
    unknown_metadata: ["400", expect.stringContaining("unknown model: 'nothing'")],
    unknown_input: ["400", expect.stringContaining("unexpected inference input 'z'")],
    unknown_output: ["400", expect.stringContaining("unexpected inference output 'scores'")],
    wrong_datatype: ["400", expect.stringContaining("data-type is 'INT8'")],
    wrong_shape: ["400", expect.stringContaining("unexpected shape for input 'x'")],
    empty_text: ["400", expect.stringContaining("empty")],
    sequence: ["501", expect.stringContaining("Sequence batching")],
    not_utf8: ["400", expect.stringContaining("UTF-8")], // ONNX Runtime's JavaScript interface has strings, not bytes
    nul: ["400", expect.stringContaining("NUL")],
    unknown_tier: ["400", expect.stringContaining("edge, region")],
  },
};
const UNAVAILABLE_AT_EDGE = ["501", expect.stringContaining("region")];

describe.skipIf(!hasClient())("tritonclient (needs the Python package tritonclient[http])", () => {
  async function seenAt(url: string): Promise<unknown> {
    const { stdout } = await promisify(execFile)(
      python,
      [join(import.meta.dirname, "../../generated-clients/triton_client.py"), new URL(url).host],
      { maxBuffer: 16 * 1024 * 1024 },
    );
    return JSON.parse(stdout);
  }

  it("finds, asks and reads everything at a region as it should be", async () => {
    expect(await seenAt(system.urls.region)).toEqual({
      ...EXPECTED,
      server: {
        name: "edgetier-region",
        version: expect.stringMatching(/^\d/),
        extensions: expect.arrayContaining([
          "binary_tensor_data",
          "classification",
          "model_configuration",
          "model_repository",
          "schedule_policy",
          "parameters",
          "statistics",
        ]),
      },
      refusals: { ...EXPECTED.refusals, unknown_tier: ["400", expect.stringContaining("region")] },
      extensions: {
        statistics: null,
        all_statistics: null,
        config: null,
        index: null,
        load: null,
        trace: [expect.any(String), expect.any(String)],
        log: [expect.any(String), expect.any(String)],
        shared_memory: [expect.any(String), expect.any(String)],
      },
    });
  });

  it("finds, asks and reads everything at an edge as it should be, wherever the tiers are", async () => {
    expect(await seenAt(system.urls.edge)).toEqual({
      ...EXPECTED,
      server: {
        name: "edgetier",
        version: expect.stringMatching(/^\d/),
        extensions: ["binary_tensor_data", "classification", "parameters"],
      },
      extensions: {
        statistics: UNAVAILABLE_AT_EDGE,
        all_statistics: UNAVAILABLE_AT_EDGE,
        config: UNAVAILABLE_AT_EDGE,
        index: UNAVAILABLE_AT_EDGE,
        load: UNAVAILABLE_AT_EDGE,
        trace: UNAVAILABLE_AT_EDGE,
        log: UNAVAILABLE_AT_EDGE,
        shared_memory: UNAVAILABLE_AT_EDGE,
      },
    });
  });
});
