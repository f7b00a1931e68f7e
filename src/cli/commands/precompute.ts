// `edgetier precompute --model intent --inputs top.jsonl`: sends frequent inputs to an edge in advance, which fills its caches.

import { defineCommand } from "citty";
import * as z from "zod";
import { httpUrlText, parseConfig } from "../../core/config.ts";
import { cliErrors } from "../errors.ts";
import { localPort, LOOPBACK } from "../local/defaults.ts";
import { jsonArg, printJson, printLine, createProgressPrinter, renderTable } from "../output.ts";
import { createBatchPredictor } from "../precompute/batch-predictor.ts";
import { readInputs } from "../precompute/inputs.ts";
import { openPrecomputeState } from "../precompute/progress-state.ts";
import { type PrecomputeReport, runPrecompute } from "../precompute/run-precompute.ts";
import { parseCount } from "./samples-args.ts";

const NAME = "edgetier precompute";
const MAX_SHOWN_FAILURES = 10;

const schema = z.object({
  EDGETIER_PORT: localPort("EDGETIER_PORT"),
  EDGETIER_API_KEY: z.string().min(1).optional(),
  url: httpUrlText().optional(),
});

export const command = defineCommand({
  meta: {
    name: "precompute",
    description: "Send inputs to an edge in advance, so that its caches contain the answers",
  },
  args: {
    model: {
      type: "string",
      valueHint: "ref",
      description: "Model reference: name, name@version or name@alias",
      required: true,
    },
    inputs: {
      type: "string",
      valueHint: "path",
      description:
        'File with one input per line, most frequent first: "a text", {"text": "a text"}, {"b64": "<an image>"}',
      required: true,
    },
    url: {
      type: "string",
      valueHint: "url",
      description: "Address of the edge; by default the local system's, http://127.0.0.1:8787",
    },
    batch: {
      type: "string",
      valueHint: "count",
      default: "16",
      description:
        "Inputs per request; 1 avoids the differences in the last digits that dynamic quantization causes within a batch",
    },
    rate: {
      type: "string",
      valueHint: "per second",
      description: "Maximum inputs per second; by default unlimited",
    },
    state: {
      type: "string",
      valueHint: "path",
      description:
        "Progress file from which another run resumes; by default <inputs>.precomputed.json",
    },
    refresh: { type: "boolean", description: "Also recompute answers that are cached" },
    ...jsonArg,
  },
  async run({ args }) {
    const {
      EDGETIER_PORT: port,
      EDGETIER_API_KEY: apiKey,
      url,
    } = parseConfig(schema, {
      EDGETIER_PORT: process.env["EDGETIER_PORT"],
      EDGETIER_API_KEY: process.env["EDGETIER_API_KEY"],
      url: args.url,
    });
    const batchSize = parseCount("--batch", args.batch, NAME, 1_024);
    const ratePerSecond = parseCount("--rate", args.rate, NAME, 1_000_000);
    const inputs = await readInputs(args.inputs, NAME);
    const edge = createBatchPredictor({
      url: url ?? `http://${LOOPBACK}:${port}`,
      apiKey,
      refresh: args.refresh === true,
    });
    const { model, version } = await edge.resolve(args.model);
    const state = await openPrecomputeState(args.state ?? `${args.inputs}.precomputed.json`, {
      model,
      version,
      inputsSha256: inputs.sha256,
      count: inputs.lines.length,
    });
    const report = await runPrecompute({
      inputs: inputs.lines,
      state,
      batchSize,
      ratePerSecond,
      predictBatch: (batch) => edge.predictBatch(`${model}@${version}`, batch),
      log: createProgressPrinter(args.json === true),
    });
    if (args.json) printJson({ model, version, ...report });
    else printReport(model, version, report);
    if (report.failed > 0) throw cliErrors.notPrecomputed(report.failed, report.asked);
  },
});

function printReport(
  model: string,
  version: number,
  { asked, cached, computed, failed, hitShare, failures }: PrecomputeReport,
): void {
  printLine(
    renderTable([
      ["model", `${model}@${version}`],
      ["inputs", asked],
      ["cached", cached],
      ["computed", computed],
      ["failed", failed],
      ["hit ratio", `${(100 * hitShare).toFixed(1)} %`],
    ]),
  );
  for (const { line, code, detail } of failures.slice(0, MAX_SHOWN_FAILURES))
    printLine(`line ${line}: ${code}: ${detail}`);
  if (failures.length > MAX_SHOWN_FAILURES)
    printLine(`and ${failures.length - MAX_SHOWN_FAILURES} more`);
}
