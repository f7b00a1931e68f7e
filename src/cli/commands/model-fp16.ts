// `edgetier model fp16 <in.onnx> -o <out.onnx>`: an FP32 graph as FP16, for a tier on a GPU, and how far it is from the original.

import { cliErrors } from "../errors.ts";
import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { defineCommand } from "citty";
import { compareModels, type ModelComparison } from "../../toolchain/fp16/compare-models.ts";
import { convertToFp16, type Fp16Report } from "../../toolchain/fp16/convert-to-fp16.ts";
import { dequantize, type DequantizeReport } from "../../toolchain/fp16/dequantize.ts";
import { parseModel, serializeModel } from "../../toolchain/onnx/model-file.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import { createNativeRuntime } from "../../runtime/native/native-runtime.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";

const NAME = "edgetier model fp16";

export const command = defineCommand({
  meta: {
    name: "fp16",
    description: "Make an FP32 graph FP16, for a tier on a GPU, and compare the two on the CPU",
  },
  args: {
    in: { type: "positional", description: "The ONNX file", required: true },
    out: {
      type: "string",
      alias: "o",
      valueHint: "file",
      description: "Where the FP16 graph goes",
      required: true,
    },
    keep: {
      type: "string",
      valueHint: "name",
      description:
        "An operator, or a node by its name, that stays in FP32; may be given several times",
    },
    io: {
      type: "enum",
      options: ["fp32", "fp16"],
      default: "fp32",
      description: "The precision of the graph's own inputs and outputs",
    },
    dequantise: {
      type: "boolean",
      description:
        "Make what is quantised FP16 as well: weights, and activations without their rounding to 8 bits",
    },
    ...jsonArg,
  },
  async run({ args, rawArgs }) {
    const before = await readFile(args.in).catch((error: unknown) => {
      throw cliErrors.usage(`${args.in} cannot be read: ${reasonOf(error)}`, NAME);
    });
    const model = parseModel(before);
    const dequantised = args.dequantise ? dequantize(model) : null;
    const real = serializeModel(model);
    const report = convertToFp16(model, { keep: parseKeepOption(rawArgs), io: args.io });
    const after = serializeModel(model);
    await writeFile(args.out, after).catch((error: unknown) => {
      throw cliErrors.usage(`${args.out} cannot be written: ${reasonOf(error)}`, NAME);
    });
    const comparisons = await compareWithOriginal(
      before,
      dequantised === null ? null : real,
      after,
    );
    const result: Result = {
      out: args.out,
      bytesBefore: before.byteLength,
      bytesAfter: after.byteLength,
      ...report,
      dequantised,
      ...comparisons,
    };
    if (args.json) printJson(result);
    else printLine(summary(result));
    const lost = comparisons.comparison?.outputs.filter((output) => output.lost > 0) ?? [];
    if (lost.length > 0)
      throw cliErrors.fp16Overflow(
        lost.map((one) => `${one.lost} of ${one.values} numbers of ${one.output}`),
      );
  },
});

/** Not every graph runs on made-up inputs; the result is as good then, but nobody knows how good. */
async function compareWithOriginal(
  original: Uint8Array,
  dequantised: Uint8Array | null,
  after: Uint8Array,
): Promise<Comparisons> {
  const runtime = createNativeRuntime();
  try {
    const comparison = await compareModels(runtime, original, after);
    // Apart from the original's own rounding to 8 bits:
    return {
      comparison,
      comparisonInFp32: dequantised && (await compareModels(runtime, dequantised, after)),
      notCompared: null,
    };
  } catch (error) {
    if (error instanceof EdgeTierError && error.code === "not_comparable")
      return { comparison: null, comparisonInFp32: null, notCompared: error.detail };
    throw error;
  }
}

/** citty takes an option once. */
function parseKeepOption(rawArgs: readonly string[]): string[] {
  const { values } = parseArgs({
    args: [...rawArgs],
    options: {
      keep: { type: "string", multiple: true },
      out: { type: "string", short: "o" },
      io: { type: "string" },
    },
    strict: false,
  });
  return (values.keep ?? []).filter((one) => typeof one === "string");
}

interface Comparisons {
  readonly comparison: ModelComparison | null;
  /** Against the dequantised graph in FP32. */
  readonly comparisonInFp32: ModelComparison | null;
  /** Why there is none. */
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
  dequantised,
  comparison,
  comparisonInFp32,
  notCompared,
}: Result): string {
  const total = (count: "clamped" | "raised") => rounded.reduce((sum, one) => sum + one[count], 0);
  const facts = [
    [
      "bytes",
      `${formatBytes(bytesBefore)} -> ${formatBytes(bytesAfter)}`,
      `${((100 * bytesAfter) / bytesBefore).toFixed(1)} %`,
    ],
    ["casts put in", casts],
    ["constants clamped to ±65,504", total("clamped")],
    ["constants kept from becoming 0", total("raised")],
    ...(dequantised === null
      ? []
      : [
          ["constants dequantised", dequantised.constants],
          ["roundings to 8 bits dropped", dequantised.activations],
        ]),
  ];
  return [
    renderTable(facts),
    ...(comparison === null
      ? [`Not compared: ${notCompared}`]
      : [differences("Against the original", comparison)]),
    ...(comparisonInFp32 === null
      ? []
      : [differences("Against the dequantised graph in FP32", comparisonInFp32)]),
    ...(kept.length === 0
      ? []
      : [`In FP32 still:\n${renderTable([["NODES", "OPERATOR", "WHY"], ...grouped(kept)])}`]),
    `Written to ${out}`,
  ].join("\n\n");
}

function differences(title: string, { runs, rounds, outputs }: ModelComparison): string {
  const rows = outputs.map((one) => [
    one.output,
    one.maxAbsolute.toPrecision(3),
    one.meanAbsolute.toPrecision(3),
    one.largest.toPrecision(3),
    one.argmaxAgreement === null ? "-" : `${(100 * one.argmaxAgreement).toFixed(1)} %`,
    one.lost,
  ]);
  const doubt = rounds
    ? ""
    : " (on the CPU, which does not round everything to FP16 in a graph this old)";
  return `${title}, in ${runs} runs${doubt}:\n${renderTable([["OUTPUT", "MAX DIFFERENCE", "MEAN", "LARGEST VALUE", "SAME ARGMAX", "NOT FINITE"], ...rows])}`;
}

/** Counts of the same operator for the same reason. */
function grouped(kept: Fp16Report["kept"]): [count: number, op: string, reason: string][] {
  const groups = Map.groupBy(kept, ({ op, reason }) => `${op}\n${reason}`);
  return [...groups.values()].flatMap((nodes) =>
    nodes.slice(0, 1).map(({ op, reason }): [number, string, string] => [nodes.length, op, reason]),
  );
}
