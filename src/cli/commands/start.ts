// `edgetier start`, which `npm start` runs: runs the whole system on this machine until Ctrl-C.

import { rm } from "node:fs/promises";
import { defineCommand } from "citty";
import * as z from "zod";
import { parseConfig } from "../../core/config.ts";
import { modelDetailSchema } from "../../protocol/model-detail.ts";
import { imageClassificationTask } from "../../tasks/image-classification.ts";
import { CLI_INVOCATION } from "../command-guides.ts";
import { localPort } from "../local/defaults.ts";
import { selectEdgeVariables } from "../local/edge-environment.ts";
import { STATE_FOLDER } from "../local/paths.ts";
import { createShutdownSignal } from "../local/shutdown-signal.ts";
import { type LocalSystem, startLocalSystem } from "../local/system.ts";
import { jsonArg, printJson, printLine, renderTable } from "../output.ts";
import {
  type PredictionInput,
  formatPredictionRows,
  requestPrediction,
  type PredictionResult,
} from "../predict-client.ts";
import { readSigningKeys } from "../signing-args.ts";

const EXAMPLE_TEXT = "how do i freeze my account";

const schema = z.object({
  EDGETIER_PORT: localPort("EDGETIER_PORT"),
  EDGETIER_REGION_PORT: localPort("EDGETIER_REGION_PORT"),
  EDGETIER_S3_PORT: localPort("EDGETIER_S3_PORT"),
  EDGETIER_REDIS_REST_PORT: localPort("EDGETIER_REDIS_REST_PORT"),
  EDGETIER_STATE: z.string().default(STATE_FOLDER),
  /** Credential of the example prediction, if `EDGETIER_API_KEYS` restricts access. */
  EDGETIER_API_KEY: z.string().min(1).optional(),
});

export const command = defineCommand({
  meta: {
    name: "start",
    description: "Run the whole system on this machine: model store, L2 cache, region and edge",
  },
  args: {
    "open-region": {
      type: "boolean",
      description: "Let the region accept unsigned requests from this machine, not only the edge's",
    },
    fresh: {
      type: "boolean",
      description: "Start with an empty model store; by default, published versions are kept",
    },
    ...jsonArg,
  },
  async run({ args }) {
    const { EDGETIER_STATE, EDGETIER_API_KEY: apiKey, ...ports } = parseConfig(schema, process.env);
    const signingKeys = await readSigningKeys(undefined, "edgetier start");
    const startedAtMs = performance.now();
    if (args.fresh === true) await rm(EDGETIER_STATE, { recursive: true, force: true });
    const stopRequest = createShutdownSignal();
    const system = await ignoreAbort(
      startLocalSystem({
        ports,
        stateFolder: EDGETIER_STATE,
        signingKeys,
        edgeVariables: selectEdgeVariables(process.env),
        regionVariables: args["open-region"] === true ? { EDGETIER_REGION_KEYS: "" } : {},
        signal: stopRequest.signal,
        log: args.json ? () => {} : printLine,
        onLine(part, line) {
          if (!stopRequest.signal.aborted) process.stderr.write(`${part.padEnd(6)} | ${line}\n`);
        },
      }),
      stopRequest.signal,
    );
    if (system === undefined) return;
    try {
      const first = await findExampleRequest(system, apiKey);
      const predict = async () =>
        first && (await requestPrediction(system.urls.edge, first.model, first.input, { apiKey }));
      const prediction = await predict();
      const again = await predict();
      const seconds = Math.round((performance.now() - startedAtMs) / 100) / 10;
      if (args.json)
        printJson({
          urls: system.urls,
          models: system.models,
          prediction: prediction ?? null,
          again: again ?? null,
          seconds,
        });
      else printWelcome(system, first, prediction, again, seconds);
      const ending = await Promise.race([stopRequest.reason, system.died]);
      if (typeof ending !== "string") throw ending;
      if (!args.json) printLine(`\n${ending}: stopping`);
    } finally {
      await system.stop();
    }
  },
});

/** Returns undefined if the user stopped the start, which is not an error. */
async function ignoreAbort(
  system: Promise<LocalSystem>,
  signal: AbortSignal,
): Promise<LocalSystem | undefined> {
  try {
    return await system;
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}

interface ExampleRequest {
  readonly model: string;
  readonly input: PredictionInput;
  /** Description of the input, for people. */
  readonly description: string;
  /** Arguments of a curl command after the address. */
  readonly curlArgs: string;
}

/** Finds the first classification model and an example input for it. */
async function findExampleRequest(
  { urls, models }: LocalSystem,
  apiKey: string | undefined,
): Promise<ExampleRequest | undefined> {
  const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  for (const { model } of models) {
    const response = await fetch(`${urls.edge}/v1/models/${model}`, { headers });
    const task = modelDetailSchema.safeParse(await response.json()).data?.task;
    if (task === "text-classification")
      return {
        model,
        input: { text: EXAMPLE_TEXT },
        description: JSON.stringify(EXAMPLE_TEXT),
        curlArgs: `--json '{"inputs":"what is my balance"}'`,
      };
    if (task === "image-classification")
      return {
        model,
        input: {
          file: new Uint8Array(
            imageClassificationTask.encodeInput(imageClassificationTask.exampleInput),
          ),
        },
        description: "of a generated image",
        curlArgs: "-H 'content-type: image/jpeg' --data-binary @photo.jpg",
      };
  }
  return undefined;
}

/**
 * Prints the addresses and the example.
 * @param prediction the first response of a cold isolate
 * @param again the response to the same request, sent a second time
 */
function printWelcome(
  { urls, services: parts, models }: LocalSystem,
  first: ExampleRequest | undefined,
  prediction: PredictionResult | undefined,
  again: PredictionResult | undefined,
  seconds: number,
): void {
  printLine(`\nEdgeTier is running on this machine (ready in ${seconds} s)\n`);
  printLine(renderTable(parts.toReversed().map((part) => [`  ${part.name}`, part.url])));
  if (models.length === 0)
    printLine(
      `\nThere are no models yet. Create one with \`${CLI_INVOCATION} init <name>\`, then start again.`,
    );
  const stop = `Playground: ${urls.edge}/    API page: ${urls.edge}/docs    Stop: Ctrl-C`;
  if (first === undefined || prediction === undefined || again === undefined)
    return printLine(`\n${stop}`);
  printLine(`\nFirst prediction, ${first.description}:\n`);
  const rows: [string, string][] = [
    ...formatPredictionRows(prediction),
    ["second call", `${again.latencyMs} ms (${again.cache})`],
  ];
  printLine(renderTable(rows.map(([name, value]) => [`  ${name}`, value])));
  printLine(
    `\nTry it:\n\n  curl ${urls.edge}/v1/models/${first.model}/predict ${first.curlArgs}\n`,
  );
  printLine(stop);
}
