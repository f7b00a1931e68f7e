// `edgetier model optimize <in.onnx> -o <out.onnx>`: simplifies a graph and verifies that its outputs stay the same.

import { writeFile } from "node:fs/promises";
import { defineCommand } from "citty";
import { reasonOf } from "../../core/errors.ts";
import { createNativeRuntime, type NativeRuntime } from "../../runtime/native/native-runtime.ts";
import { readModelFile } from "../../toolchain/import/read-model-file.ts";
import { readTensorSamples } from "../../toolchain/import/tensor-samples.ts";
import { serializeModel } from "../../toolchain/onnx/model-file.ts";
import { optimize, type OptimizeReport } from "../../toolchain/passes/optimize.ts";
import { GRAPH_PASSES, RUNTIME_PASSES } from "../../toolchain/passes/passes.ts";
import {
  verifyOutputs,
  DEFAULT_TOLERANCE,
  type OutputVerification,
  assertOutputsMatch,
} from "../../toolchain/passes/verify-outputs.ts";
import { cliErrors } from "../errors.ts";
import { createProgressLine } from "../evaluation-runners.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";

const NAME = "edgetier model optimize";
const joinNames = (passes: typeof GRAPH_PASSES) => passes.map(({ name }) => name).join(", ");

export const command = defineCommand({
  meta: { name: "optimize", description: "Simplify a graph and verify its outputs" },
  args: {
    in: { type: "positional", description: "ONNX file", required: true },
    out: {
      type: "string",
      alias: "o",
      valueHint: "file",
      description: "Output file",
      required: true,
    },
    passes: {
      type: "string",
      valueHint: "names",
      description: `Comma-separated passes: ${joinNames(GRAPH_PASSES)} (by default all of these), ${joinNames(RUNTIME_PASSES)}`,
    },
    samples: {
      type: "string",
      valueHint: "path",
      description:
        'Inputs for the verification: a file with one {"inputs": [{"name", "shape", "data"}]} per line, or a folder with input_0.pb and so on; by default generated',
    },
    tolerance: {
      type: "string",
      valueHint: "share",
      description: "Maximum deviation of a value, as a share of its output's largest value",
      default: String(DEFAULT_TOLERANCE),
    },
    ...jsonArg,
  },
  async run({ args }) {
    const tolerance = Number(args.tolerance);
    if (!(tolerance >= 0 && tolerance <= 1))
      throw cliErrors.usage(
        `--tolerance is ${JSON.stringify(args.tolerance)}; expected a number from 0 to 1`,
        NAME,
      );
    const { model, bytes } = await readModelFile(args.in);
    const before = serializeModel(model); // includes external data, unlike the file
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
      throw cliErrors.usage(`Cannot write ${args.out}: ${reasonOf(error)}`, NAME);
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
    formatSigned(nodes),
    formatSigned(bytes),
  ]);
  const nonStandard = Object.entries(foreignOperators).map(([operator, nodes]) => [
    operator,
    nodes,
  ]);
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
    ...(nonStandard.length === 0
      ? []
      : [
          `Operators specific to ONNX Runtime, which other runtimes may lack:\n${renderTable([["OPERATOR", "NODES"], ...nonStandard])}`,
        ]),
    `Written to ${out}`,
  ].join("\n\n");
}

const formatSigned = (count: number): string => (count > 0 ? `+${count}` : String(count));

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
