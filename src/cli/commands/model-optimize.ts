// `edgetier model optimise <in.onnx> -o <out.onnx>`: the same answers with fewer nodes and bytes, checked.

import { cliErrors } from "../errors.ts";
import { writeFile } from "node:fs/promises";
import { defineCommand } from "citty";
import { readModelFile } from "../../toolchain/import/read-model-file.ts";
import { readTensorSamples } from "../../toolchain/import/tensor-samples.ts";
import { serializeModel } from "../../toolchain/onnx/model-file.ts";
import {
  verifyOutputs,
  DEFAULT_TOLERANCE,
  type OutputVerification,
  assertOutputsMatch,
} from "../../toolchain/passes/verify-outputs.ts";
import { optimize, type OptimizeReport } from "../../toolchain/passes/optimize.ts";
import { GRAPH_PASSES, RUNTIME_PASSES } from "../../toolchain/passes/passes.ts";
import { reasonOf } from "../../core/errors.ts";
import { createNativeRuntime, type NativeRuntime } from "../../runtime/native/native-runtime.ts";
import { createProgressLine } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";

const NAME = "edgetier model optimise";
const names = (passes: typeof GRAPH_PASSES) => passes.map(({ name }) => name).join(", ");

export const command = defineCommand({
  meta: { name: "optimise", description: "Simplify a graph, and check that it answers as before" },
  args: {
    in: { type: "positional", description: "The ONNX file", required: true },
    out: {
      type: "string",
      alias: "o",
      valueHint: "file",
      description: "Where the optimised graph goes",
      required: true,
    },
    passes: {
      type: "string",
      valueHint: "names",
      description: `Which passes, with commas between: ${names(GRAPH_PASSES)} (all of these by default), ${names(RUNTIME_PASSES)}`,
    },
    samples: {
      type: "string",
      valueHint: "path",
      description:
        'Inputs to check it on: a file with one {"inputs": [{"name", "shape", "data"}]} a line, or a folder with input_0.pb and so on; made up by default',
    },
    tolerance: {
      type: "string",
      valueHint: "share",
      description: "What numbers may be off by, as a share of the largest of their output",
      default: String(DEFAULT_TOLERANCE),
    },
    ...jsonArg,
  },
  async run({ args }) {
    const tolerance = Number(args.tolerance);
    if (!(tolerance >= 0 && tolerance <= 1))
      throw cliErrors.usage(
        `--tolerance is ${JSON.stringify(args.tolerance)}, and must be a number from 0 to 1`,
        NAME,
      );
    const { model, bytes } = await readModelFile(args.in);
    const before = serializeModel(model); // with what the file keeps elsewhere
    const runtime = createNativeRuntime();
    const progress = createProgressLine();
    const passes =
      args.passes?.split(",").map((name) => name.trim()) ?? GRAPH_PASSES.map(({ name }) => name);
    const report = await optimize(model, {
      runtime,
      passes,
      onProgress: ({ pass, round }) =>
        progress.show(`round ${round}, ${pass}`, passes.indexOf(pass) + 1, passes.length),
    });
    progress.clear();
    const after = serializeModel(model);
    const check = await verifyOutputs(runtime, before, after, {
      tolerance,
      ...(args.samples === undefined
        ? {}
        : { inputs: await readSampleInputs(runtime, before, args.samples) }),
    });
    assertOutputsMatch(check);
    await writeFile(args.out, after).catch((error: unknown) => {
      throw cliErrors.usage(`${args.out} cannot be written: ${reasonOf(error)}`, NAME);
    });
    if (args.json) printJson({ out: args.out, ...report, bytesOfFile: bytes.byteLength, check });
    else printLine(summary(report, check, args.out));
  },
});

async function readSampleInputs(runtime: NativeRuntime, model: Uint8Array, path: string) {
  const session = await runtime.createSession(model);
  try {
    return (await readTensorSamples(path, session)).map(({ inputs }) => inputs);
  } finally {
    await session.dispose();
  }
}

function summary(
  { before, after, passes, foreignOperators }: OptimizeReport,
  { runs, outputs }: OutputVerification,
  out: string,
): string {
  const rows = passes.map(({ pass, changes, nodes, bytes }) => [
    pass,
    changes,
    signed(nodes),
    signed(bytes),
  ]);
  const foreign = Object.entries(foreignOperators).map(([operator, nodes]) => [operator, nodes]);
  return [
    renderTable([
      ["PASS", "CHANGES", "NODES", "BYTES"],
      ...rows,
      [
        "",
        "",
        `${before.nodes} -> ${after.nodes}`,
        `${formatBytes(before.bytes)} -> ${formatBytes(after.bytes)}`,
      ],
    ]),
    `Against the original, in ${runs} runs:\n${renderTable([["OUTPUT", "MAX DIFFERENCE", "MEAN", "LARGEST VALUE", "SAME ARGMAX"], ...outputs.map(differences)])}`,
    ...(foreign.length === 0
      ? []
      : [
          `Operators of ONNX Runtime's own, which other runtimes may not have:\n${renderTable([["OPERATOR", "NODES"], ...foreign])}`,
        ]),
    `Written to ${out}`,
  ].join("\n\n");
}

const signed = (count: number): string => (count > 0 ? `+${count}` : String(count));

const differences = ({
  output,
  maxAbsolute,
  meanAbsolute,
  largest,
  argmaxAgreement,
}: OutputVerification["outputs"][number]) => [
  output,
  maxAbsolute.toPrecision(3),
  meanAbsolute.toPrecision(3),
  largest.toPrecision(3),
  argmaxAgreement === null ? "-" : `${(100 * argmaxAgreement).toFixed(1)} %`,
];
