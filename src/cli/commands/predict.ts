// `edgetier predict --model intent "text"`: one prediction through an edge.

import { defineCommand } from "citty";
import * as z from "zod";
import { httpUrl, parseConfig } from "../../core/config.ts";
import { localPort, LOOPBACK } from "../local/defaults.ts";
import { jsonArg, printJson, printLine, table } from "../output.ts";
import { predictionRows, requestPrediction } from "../predict-client.ts";

const schema = z.object({ EDGETIER_PORT: localPort("EDGETIER_PORT"), url: httpUrl().optional() });

export const command = defineCommand({
  meta: { name: "predict", description: "Ask an edge for one prediction" },
  args: {
    text: { type: "positional", description: "The input", required: true },
    model: { type: "string", valueHint: "ref", description: "name, name@version or name@alias", required: true },
    url: { type: "string", valueHint: "url", description: "Address of the edge; otherwise the local system's, http://127.0.0.1:8787" },
    ...jsonArg,
  },
  async run({ args }) {
    const config = parseConfig(schema, { EDGETIER_PORT: process.env["EDGETIER_PORT"], url: args.url });
    const prediction = await requestPrediction(config.url ?? `http://${LOOPBACK}:${config.EDGETIER_PORT}`, args.model, args.text);
    if (args.json) printJson(prediction);
    else printLine(table(predictionRows(prediction)));
  },
});
