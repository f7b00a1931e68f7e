// `npm run bench:quantize`: compares the quantizer with Python's onnxruntime.quantization: accuracy, outputs, bytes. Both use the same
// FP32 graphs, range samples and settings. [--python <interpreter>, or EDGETIER_BENCH_PYTHON] [--smoke]
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { createWordpieceTokenizer, tokenizerJsonSchema } from "../../src/tasks/text/wordpiece.ts";
import { dequantize } from "../../src/toolchain/fp16/dequantize.ts";
import { parseModel, serializeModel } from "../../src/toolchain/onnx/model-file.ts";
import { createQuantizer, type QuantizeRequest } from "../../src/toolchain/quantize/quantizer.ts";
import { RANGE_METHODS } from "../../src/toolchain/quantize/range-selection.ts";
import { createMobileNet } from "./lib/mobilenet.ts";
import { createRandom } from "./lib/random.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";
import { collectLogits, type LogitQuality, computeLogitQuality } from "./quantize/logit-quality.ts";
import { findPythonQuantizer, type QuantizerRun } from "./quantize/python-quantizer.ts";

const SEED = 1;
const PERCENTILE = 99.99;
const CALIBRATION_TOKENS = 12;
const { values: options } = parseArgs({
  options: { python: { type: "string" }, smoke: { type: "boolean" } },
});
const isSmoke = options.smoke === true;
const [CALIBRATED, ASKED] = isSmoke ? [8, 40] : [128, Number.POSITIVE_INFINITY];

interface QuantizationCase {
  readonly name: string;
  readonly graph: Uint8Array;
  readonly calibration: readonly NamedTensors[];
  readonly questions: readonly NamedTensors[];
  /** The right classes; -1 for what is of none. */
  readonly labels: readonly number[] | undefined;
  readonly operators: readonly string[];
  readonly modes: readonly QuantizeRequest["mode"][];
}

function toFp32(bytes: Uint8Array): Uint8Array {
  const model = parseModel(bytes);
  dequantize(model);
  return serializeModel(model);
}

/** The region tier without its rounding to 8 bits: ranges from texts of train, inputs from val. */
async function intent(): Promise<QuantizationCase> {
  const artifacts = join(import.meta.dirname, "../../models/intent/artifacts");
  const labels: string[] = JSON.parse(await readFile(join(artifacts, "labels.json"), "utf8"));
  const { encodeText: idsOf } = createWordpieceTokenizer(
    tokenizerJsonSchema.parse(
      JSON.parse(await readFile(join(artifacts, "tokenizer.json"), "utf8")),
    ),
    64,
  );
  const tensorsOf = ({ text }: Sample): NamedTensors => {
    const ids = BigInt64Array.from(idsOf(text), BigInt);
    const shape = [1, ids.length];
    return {
      input_ids: { datatype: "INT64", shape, data: ids },
      attention_mask: { datatype: "INT64", shape, data: ids.map(() => 1n) },
    };
  };
  // Python's histograms take inputs of one shape only: texts of as many tokens.
  const train = (await readSamplePart("train")).filter(
    ({ text }) => idsOf(text).length === CALIBRATION_TOKENS,
  );
  const val = (await readSamplePart("val")).slice(0, ASKED);
  const random = createRandom(SEED);
  const chosen = Array.from(
    { length: CALIBRATED },
    () => train[Math.floor(random.next() * train.length)] ?? { text: "", label: "" },
  );
  return {
    name: "intent",
    graph: toFp32(await readFile(join(artifacts, "region.onnx"))),
    calibration: chosen.map(tensorsOf),
    questions: val.map(tensorsOf),
    labels: val.map(({ label }) => labels.indexOf(label)),
    operators: ["MatMul"],
    modes: ["static", "dynamic"],
  };
}

interface Sample {
  readonly text: string;
  readonly label: string;
}

async function readSamplePart(part: "train" | "val"): Promise<Sample[]> {
  const file = join(process.env["EDGETIER_DATA_DIR"] ?? "../shared/data", `clinc150/${part}.jsonl`);
  const text = await readFile(file, "utf8").catch(() => {
    console.error(`${file} cannot be read. Name the data folder with EDGETIER_DATA_DIR.`);
    process.exit(1);
  });
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Sample => JSON.parse(line));
}

/** Random weights, random images. */
function mobileNet(): QuantizationCase {
  const side = 64;
  const { next } = createRandom(SEED);
  const images = (count: number) =>
    Array.from({ length: count }, (): NamedTensors => ({
      pixels: {
        datatype: "FP32",
        shape: [1, 3, side, side],
        data: Float32Array.from({ length: 3 * side * side }, () => 2 * next() - 1),
      },
    }));
  return {
    name: "mobilenet",
    graph: toFp32(createMobileNet({ seed: SEED, width: 0.25, resolution: side, classes: 10 })),
    calibration: images(Math.min(CALIBRATED, 64)),
    questions: images(Math.min(ASKED, 500)),
    labels: undefined,
    operators: ["Conv", "MatMul", "Clip", "GlobalAveragePool", "Flatten"],
    modes: ["static"],
  };
}

const peer = await findPythonQuantizer(options.python ?? process.env["EDGETIER_BENCH_PYTHON"]);
const runtime = createNativeRuntime();
const rows: ({ readonly case: string } & Readonly<Record<string, string | number>>)[] = [];
const pairs: { readonly own: LogitQuality; readonly other: LogitQuality | undefined }[] = [];
for (const subject of [await intent(), mobileNet()]) {
  const reference = await collectLogits(runtime, subject.graph, subject.questions);
  const figures = async (graph: Uint8Array) =>
    computeLogitQuality(
      await collectLogits(runtime, graph, subject.questions),
      reference,
      subject.labels,
    );
  const add = (name: string, graph: Uint8Array, found: LogitQuality, seconds: number) => {
    rows.push({
      case: `${subject.name}, ${name}`,
      bytes: graph.byteLength,
      ...found,
      seconds: roundToFourDigits(seconds),
    });
    console.error(JSON.stringify(rows.at(-1)));
  };
  add("FP32", subject.graph, await figures(subject.graph), 0);
  const runs = subject.modes.flatMap((mode): QuantizerRun[] =>
    (mode === "dynamic" ? ["minmax" as const] : RANGE_METHODS).map((rangeMethod) => ({
      name: mode === "dynamic" ? mode : `${mode}-${rangeMethod}`,
      mode,
      rangeMethod,
      percentile: PERCENTILE,
      operators: subject.operators,
    })),
  );
  const others =
    peer.quantize &&
    (await peer.quantize(
      subject.graph,
      subject.calibration,
      runs.filter(({ rangeMethod: calibration }) => calibration !== "mse"),
    )); // which it does not have
  for (const { name, mode, rangeMethod: calibration } of runs) {
    const startedAtMs = performance.now();
    const method =
      calibration === "percentile"
        ? { kind: calibration, percentile: PERCENTILE }
        : { kind: calibration };
    const { quantize: make } = await createQuantizer(runtime, parseModel(subject.graph), {
      mode,
      samples: subject.calibration,
      rangeMethod: method,
    });
    const { graph } = await make();
    const seconds = (performance.now() - startedAtMs) / 1_000;
    const own = await figures(graph);
    add(name, graph, own, seconds);
    const other = others?.get(name);
    const otherFigures = other && (await figures(other.graph));
    if (other !== undefined && otherFigures !== undefined)
      add(`${name}, Python`, other.graph, otherFigures, other.seconds);
    pairs.push({ own, other: otherFigures });
  }
}

const compared = pairs.flatMap(({ own, other }) => (other === undefined ? [] : [{ own, other }]));
/** Ours less Python's, or Python's less ours where less is better: above 0 where ours is better. */
const advantages = {
  points: compared.flatMap(({ own, other }) =>
    own.lossPoints === undefined || other.lossPoints === undefined
      ? []
      : [other.lossPoints - own.lossPoints],
  ),
  agreementPoints: compared.map(({ own, other }) => 100 * (own.agreement - other.agreement)),
  sqnrDb: compared.map(({ own, other }) => own.sqnrDb - other.sqnrDb),
};
const mean = (values: readonly number[]) =>
  values.reduce((sum, value) => sum + value, 0) / values.length;
await writeBenchReport({
  name: "quantise",
  seed: SEED,
  n: rows.length,
  packages: ["onnxruntime-node"],
  otherVersions: peer.versions,
  notes: peer.missing,
  isSaved: !isSmoke,
  rows,
  figures: {
    // The largest loss of accuracy on intent, over all range methods.
    int8LossPoints: Math.max(...pairs.flatMap(({ own }) => own.lossPoints ?? [])),
    // Means over the cases, and the case in which ours is worst: one text of val is 0.03 points.
    ...(compared.length === 0
      ? {}
      : {
          vsPythonQuantiserPoints: mean(advantages.points),
          vsPythonQuantiserWorstPoints: Math.min(...advantages.points),
          vsPythonQuantiserAgreementPoints: mean(advantages.agreementPoints),
          vsPythonQuantiserSqnrDb: mean(advantages.sqnrDb),
          vsPythonQuantiserWorstSqnrDb: Math.min(...advantages.sqnrDb),
        }),
  },
});
