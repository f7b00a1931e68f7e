// Python quantizer: runs onnxruntime.quantization, if an interpreter with it is available.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { byteView, concatBytes } from "../../../src/core/bytes.ts";
import { reasonOf } from "../../../src/core/errors.ts";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import type { RangeMethod } from "../../../src/toolchain/quantize/range-selection.ts";

export interface QuantizerRun {
  readonly name: string;
  readonly mode: "dynamic" | "static";
  readonly rangeMethod: RangeMethod["kind"];
  readonly percentile: number;
  readonly operators: readonly string[];
}

export interface PythonQuantizer {
  /** Undefined if no interpreter is available; `missing` has the reason. @returns graphs by name of the run */
  readonly quantize:
    | ((
        graph: Uint8Array,
        calibration: readonly NamedTensors[],
        runs: readonly QuantizerRun[],
      ) => Promise<ReadonlyMap<string, { readonly graph: Uint8Array; readonly seconds: number }>>)
    | undefined;
  readonly versions: Readonly<Record<string, string>>;
  readonly missing: readonly string[];
}

const SCRIPT = join(import.meta.dirname, "python_quantizer.py");
const versionsSchema = z.record(z.string(), z.string());
const resultSchema = z.object({
  versions: versionsSchema,
  seconds: z.record(z.string(), z.number()),
});
const VERSIONS =
  'import importlib.metadata as m, json; import onnxruntime.quantization; print(json.dumps({"python-" + name: m.version(name) for name in ("onnxruntime", "onnx")}))';

export async function findPythonQuantizer(python: string | undefined): Promise<PythonQuantizer> {
  const none = (reason: string): PythonQuantizer => ({
    quantize: undefined,
    versions: {},
    missing: [
      `Python's quantizer: ${reason}; an environment with onnxruntime 1.30.0 and onnx has it`,
    ],
  });
  if (python === undefined)
    return none("neither --python nor EDGETIER_BENCH_PYTHON names an interpreter");
  try {
    const { stdout } = await promisify(execFile)(python, ["-c", VERSIONS]);
    return {
      quantize: (graph, calibration, runs) => runPythonQuantizer(python, graph, calibration, runs),
      versions: versionsSchema.parse(JSON.parse(stdout)),
      missing: [],
    };
  } catch (error) {
    return none(
      `${python} cannot be used (${
        reasonOf(error)
          .split("\n")
          .findLast((line) => line !== "") ?? ""
      })`,
    );
  }
}

async function runPythonQuantizer(
  python: string,
  graph: Uint8Array,
  calibration: readonly NamedTensors[],
  runs: readonly QuantizerRun[],
) {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-peer-"));
  try {
    const { index, data } = packSamples(calibration);
    await Promise.all([
      writeFile(join(folder, "model.onnx"), graph),
      writeFile(join(folder, "samples.bin"), data),
      writeFile(join(folder, "samples.json"), JSON.stringify(index)),
      writeFile(join(folder, "runs.json"), JSON.stringify(runs)),
    ]);
    const { stdout } = await promisify(execFile)(python, [SCRIPT, folder], { maxBuffer: 2 ** 26 });
    const { seconds } = resultSchema.parse(JSON.parse(stdout));
    return new Map(
      await Promise.all(
        runs.map(
          async ({ name }) =>
            [
              name,
              {
                graph: new Uint8Array(await readFile(join(folder, `${name}.onnx`))),
                seconds: seconds[name] ?? Number.NaN,
              },
            ] as const,
        ),
      ),
    );
  } finally {
    await rm(folder, { recursive: true });
  }
}

const NUMPY: Readonly<Record<string, string>> = { FP32: "<f4", INT32: "<i4", INT64: "<i8" };

function packSamples(samples: readonly NamedTensors[]) {
  const parts: Uint8Array[] = [];
  let offset = 0;
  const index = samples.map((sample) =>
    Object.fromEntries(
      Object.entries(sample).map(([name, { datatype, shape, data }]) => {
        const bytes = ArrayBuffer.isView(data) ? byteView(data) : new Uint8Array();
        const entry = { dtype: NUMPY[datatype] ?? "", shape, offset };
        parts.push(bytes);
        offset += bytes.byteLength;
        return [name, entry];
      }),
    ),
  );
  return { index, data: concatBytes(parts) };
}
