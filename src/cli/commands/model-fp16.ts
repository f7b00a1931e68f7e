// `edgetier model fp16 <in.onnx> -o <out.onnx>`: converts an FP32 graph to FP16 for a GPU tier, and measures the deviation.

import { readFile, writeFile } from "node:fs/promises";
import { type ArgsDef, defineCommand } from "citty";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { compareModels, type ModelComparison } from "../../toolchain/fp16/compare-models.ts";
import { convertToFp16, type Fp16Report } from "../../toolchain/fp16/convert-to-fp16.ts";
import { dequantize, type DequantizeReport } from "../../toolchain/fp16/dequantize.ts";
import { parseModel, serializeModel } from "../../toolchain/onnx/model-file.ts";
import { cliErrors } from "../errors.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { parseRepeatedOption } from "../repeated-option.ts";

const NAME = "edgetier model fp16";

const fp16Args = {
  in: { type: "positional", description: "ONNX file", required: true },
  out: {
    type: "string",
    alias: "o",
    valueHint: "file",
    description: "Output file",
    required: true,
  },
  keep: {
    type: "string",
    valueHint: "name",
    description: "Operator or node name to keep in FP32; repeatable",
  },
  io: {
    type: "enum",
    options: ["fp32", "fp16"],
    default: "fp32",
    description: "Precision of the graph's inputs and outputs",
  },
  dequantize: {
    type: "boolean",
    description: "Also convert quantized weights, and activations without their rounding to 8 bits",
  },
  ...jsonArg,
} as const satisfies ArgsDef;

export const command = defineCommand({
  meta: {
    name: "fp16",
    description: "Convert an FP32 graph to FP16 for a GPU tier, and compare both on the CPU",
  },
  args: fp16Args,
  async run({ args, rawArgs }) {
    const before = await readFile(args.in).catch((error: unknown) => {
      throw cliErrors.usage(`Cannot read ${args.in}: ${reasonOf(error)}`, NAME);
    });
    const model = parseModel(before);
    const dequantized = args.dequantize ? dequantize(model) : null;
    const fp32 = serializeModel(model);
    const keep = parseRepeatedOption(fp16Args, rawArgs, "keep");
    const report = convertToFp16(model, { keep, io: args.io });
    const after = serializeModel(model);
    await writeFile(args.out, after).catch((error: unknown) => {
      throw cliErrors.usage(`Cannot write ${args.out}: ${reasonOf(error)}`, NAME);
    });
    const comparisons = await compareWithOriginal(
      before,
      dequantized === null ? null : fp32,
      after,
    );
    const result: Result = {
      out: args.out,
      bytesBefore: before.byteLength,
      bytesAfter: after.byteLength,
      ...report,
      dequantised: dequantized,
      ...comparisons,
    };
    if (args.json) printJson(result);
    else printLine(summary(result));
    const lost = comparisons.comparison?.outputs.filter((output) => output.lost > 0) ?? [];
    if (lost.length > 0)
      throw cliErrors.fp16Overflow(
        lost.map((output) => `${output.lost} of ${output.values} values of ${output.output}`),
      );
  },
});

/** Compares the graphs on generated inputs. Graphs that reject such inputs are converted without a comparison. */
async function compareWithOriginal(
  original: Uint8Array,
  dequantized: Uint8Array | null,
  after: Uint8Array,
): Promise<Comparisons> {
  const runtime = createNativeRuntime();
  try {
    const comparison = await compareModels(runtime, original, after);
    return {
      comparison,
      comparisonInFp32: dequantized && (await compareModels(runtime, dequantized, after)),
      notCompared: null,
    };
  } catch (error) {
    if (error instanceof EdgeTierError && error.code === "not_comparable")
      return { comparison: null, comparisonInFp32: null, notCompared: error.detail };
    throw error;
  }
}

interface Comparisons {
  readonly comparison: ModelComparison | null;
  /** Deviation from the dequantized graph in FP32, which excludes the original's rounding to 8 bits. */
  readonly comparisonInFp32: ModelComparison | null;
  /** Reason for a missing comparison. */
  readonly notCompared: string | null;
}

interface Result extends Fp16Report, Comparisons {
  readonly out: string;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  readonly dequantised: DequantizeReport | null;
}

function summary({
  out,
  bytesBefore,
  bytesAfter,
  kept,
  casts,
  rounded,
  dequantised: dequantized,
  comparison,
  comparisonInFp32,
  notCompared,
}: Result): string {
  const total = (count: "clamped" | "raised") =>
    rounded.reduce((sum, constant) => sum + constant[count], 0);
  const facts = [
    [
      "bytes",
      `${formatBytes(bytesBefore)} -> ${formatBytes(bytesAfter)}`,
      `${((100 * bytesAfter) / bytesBefore).toFixed(1)} %`,
    ],
    ["casts inserted", casts],
    ["constants clamped to ±65,504", total("clamped")],
    ["constants raised to avoid 0", total("raised")],
    ...(dequantized === null
      ? []
      : [
          ["constants dequantized", dequantized.constants],
          ["roundings to 8 bits removed", dequantized.activations],
        ]),
  ];
  return [
    renderTable(facts),
    ...(comparison === null
      ? [`Not compared: ${notCompared}`]
      : [differences("Against the original", comparison)]),
    ...(comparisonInFp32 === null
      ? []
      : [differences("Against the dequantized graph in FP32", comparisonInFp32)]),
    ...(kept.length === 0
      ? []
      : [`Kept in FP32:\n${renderTable([["NODES", "OPERATOR", "REASON"], ...grouped(kept)])}`]),
    `Written to ${out}`,
  ].join("\n\n");
}

function differences(title: string, { runs, rounds, outputs }: ModelComparison): string {
  const rows = outputs.map(
    ({ output, maxAbsolute, meanAbsolute, largest, argmaxAgreement, lost }) => [
      output,
      maxAbsolute.toPrecision(3),
      meanAbsolute.toPrecision(3),
      largest.toPrecision(3),
      argmaxAgreement === null ? "-" : `${(100 * argmaxAgreement).toFixed(1)} %`,
      lost,
    ],
  );
  const caveat = rounds
    ? ""
    : " (on the CPU, which does not round every value to FP16 in a graph of this opset)";
  return `${title}, in ${runs} runs${caveat}:\n${renderTable([["OUTPUT", "MAX DIFFERENCE", "MEAN", "LARGEST VALUE", "SAME ARGMAX", "NOT FINITE"], ...rows])}`;
}

/** Counts nodes by operator and reason. */
function grouped(kept: Fp16Report["kept"]): [count: number, op: string, reason: string][] {
  const groups = Map.groupBy(kept, ({ op, reason }) => `${op}\n${reason}`);
  return [...groups.values()].flatMap((nodes) =>
    nodes.slice(0, 1).map(({ op, reason }): [number, string, string] => [nodes.length, op, reason]),
  );
}
