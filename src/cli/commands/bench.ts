// `edgetier bench <url> --model intent --rate 100 --slo 50`: load-tests an address against a latency objective.

import { writeFile } from "node:fs/promises";
import { defineCommand } from "citty";
import * as z from "zod";
import { httpUrlText, parseConfig } from "../../core/config.ts";
import { reasonOf } from "../../core/errors.ts";
import { VERSION } from "../../core/version.ts";
import { cliErrors } from "../errors.ts";
import {
  benchArgs,
  parseHeaders,
  BENCH_COMMAND,
  parseBenchArgs,
  warnTooFewSamples,
} from "../load/bench-args.ts";
import { createSender } from "../load/http-sender.ts";
import { renderReportHtml } from "../load/report-html.ts";
import type { LoadReport } from "../load/report-schema.ts";
import { renderReportText, formatVerdict } from "../load/report-text.ts";
import { type LoadPlan, runLoad } from "../load/run-load.ts";
import { createTarget } from "../load/target.ts";
import { localPort, LOOPBACK } from "../local/defaults.ts";
import { createShutdownSignal } from "../local/shutdown-signal.ts";
import { printJson, printLine, createProgressPrinter } from "../output.ts";
import { parseRepeatedOption } from "../repeated-option.ts";

const [REFRESH_INTERVAL_MS, LOG_INTERVAL_MS] = [1_000, 5_000];

const schema = z.object({
  EDGETIER_PORT: localPort("EDGETIER_PORT"),
  EDGETIER_API_KEY: z.string().min(1).optional(),
  url: httpUrlText().optional(),
});

export const command = defineCommand({
  meta: {
    name: "bench",
    description:
      "Load-test an address at a given rate. Latencies count from the scheduled send time, and may be checked against an objective",
  },
  args: benchArgs,
  async run({ args, rawArgs }) {
    const { EDGETIER_PORT, EDGETIER_API_KEY } = process.env;
    const config = parseConfig(schema, { EDGETIER_PORT, EDGETIER_API_KEY, url: args.url });
    const url = config.url ?? `http://${LOOPBACK}:${config.EDGETIER_PORT}`;
    const plan = parseBenchArgs(args);
    const headers = parseHeaders(parseRepeatedOption(benchArgs, rawArgs, "header"), {
      apiKey: config.EDGETIER_API_KEY,
      deadline: args.deadline,
    });
    if (args.inputs !== undefined && args.file !== undefined)
      throw cliErrors.usage("Pass --inputs or --file, not both", BENCH_COMMAND);
    const { model, inputs, file, cache, protocol } = args;
    const { log, showProgress, progressIntervalMs, clear } = createLoadProgress(args.json === true);

    const send = createSender(url, plan.connections);
    const { signal } = createShutdownSignal();
    signal.addEventListener("abort", () => send.close());
    try {
      const request = { url, model, protocol, inputs, file, cache, headers, seed: plan.seed };
      const target = await createTarget(send, request).catch((error: unknown) => {
        throw signal.aborted ? cliErrors.interrupted(String(signal.reason)) : error;
      });
      const warning = warnTooFewSamples(plan);
      if (warning !== undefined) log(warning);
      const startedAt = new Date().toISOString();
      const result = await runLoad(plan, {
        send,
        calls: target.calls,
        log,
        showProgress,
        progressIntervalMs,
        signal,
      });
      clear();
      const report: LoadReport = {
        edgetier: VERSION,
        startedAt,
        url,
        model,
        protocol: target.protocol,
        inputs: target.inputs,
        cache,
        ...toReportedSettings(plan),
        ...result,
        trials: [...result.trials],
        isInterrupted: signal.aborted,
      };
      if (args.html !== undefined) await writePage(args.html, renderReportHtml(report));
      if (args.json) printJson(report);
      else printLine(renderReportText(report));
      throwIfObjectiveMissed(report, args.strict === true);
    } finally {
      send.close();
    }
  },
});

const toReportedSettings = ({
  arrivals,
  seed,
  connections,
  timeoutMs,
  warmUpMs,
}: LoadPlan): Pick<
  LoadReport,
  "arrivals" | "seed" | "connections" | "timeoutMs" | "warmUpSeconds"
> => ({ arrivals, seed, connections, timeoutMs, warmUpSeconds: warmUpMs / 1_000 });

/** Creates progress output: one changing line on a terminal, fewer lines elsewhere, none with --json. */
function createLoadProgress(json: boolean) {
  const isTerminal = process.stderr.isTTY && !json;
  const clear = () => void (isTerminal && process.stderr.write("\r\u001b[K"));
  const print = createProgressPrinter(json);
  return {
    log: (line: string) => {
      clear();
      print(line);
    },
    showProgress: isTerminal
      ? (line: string) =>
          void process.stderr.write(`\r\u001b[K${line.slice(0, process.stderr.columns - 1)}`)
      : print,
    progressIntervalMs: isTerminal ? REFRESH_INTERVAL_MS : LOG_INTERVAL_MS,
    clear,
  };
}

/** @throws usage */
async function writePage(path: string, page: string): Promise<void> {
  await writeFile(path, page).catch((error: unknown) => {
    throw cliErrors.usage(`Cannot write --html ${path}: ${reasonOf(error)}`, BENCH_COMMAND);
  });
}

/** Checks the objective. In a search, rates that miss it are no failure. @throws slo_missed, slo_not_shown */
function throwIfObjectiveMissed(
  { trials, highestRatePerSecond, isInterrupted }: LoadReport,
  isStrict: boolean,
): void {
  if (highestRatePerSecond === null && !isInterrupted)
    throw cliErrors.objectiveNotHeld(true, ["No rate met the objective"]);
  if (highestRatePerSecond !== undefined) return;
  const linesOf = (verdict: string) =>
    trials.flatMap(({ ratePerSecond, slo }) =>
      slo?.verdict === verdict ? [`${ratePerSecond}/s: ${formatVerdict(slo)}`] : [],
    );
  const [missed, notShown] = [linesOf("missed"), linesOf("not shown")];
  if (missed.length > 0) throw cliErrors.objectiveNotHeld(true, missed);
  if (isStrict && notShown.length > 0) throw cliErrors.objectiveNotHeld(false, notShown);
}
