// `edgetier predict --model intent "text"`, or `--file photo.jpg`: requests one prediction from an edge.

import { readFile } from "node:fs/promises";
import { defineCommand } from "citty";
import * as z from "zod";
import { httpUrlText, parseConfig } from "../../core/config.ts";
import { reasonOf } from "../../core/errors.ts";
import { cliErrors } from "../errors.ts";
import { localPort, LOOPBACK } from "../local/defaults.ts";
import { jsonArg, printJson, printLine, renderTable } from "../output.ts";
import {
  type PredictionInput,
  formatPredictionRows,
  requestPrediction,
} from "../predict-client.ts";

const schema = z.object({
  EDGETIER_PORT: localPort("EDGETIER_PORT"),
  EDGETIER_API_KEY: z
    .string()
    .regex(/^[\x21-\x7e]+$/, "must be a key or token, without spaces")
    .optional(),
  url: httpUrlText().optional(),
});

export const command = defineCommand({
  meta: { name: "predict", description: "Request one prediction from an edge" },
  args: {
    text: { type: "positional", description: "Input text", required: false },
    file: {
      type: "string",
      valueHint: "path",
      description: "Input file, such as a JPEG or PNG",
    },
    model: {
      type: "string",
      valueHint: "ref",
      description: "Model reference: name, name@version or name@alias",
      required: true,
    },
    url: {
      type: "string",
      valueHint: "url",
      description: "Address of the edge; by default the local system's, http://127.0.0.1:8787",
    },
    "api-key": {
      type: "string",
      valueHint: "key",
      description:
        "API key or token; by default EDGETIER_API_KEY, which other users of this machine cannot see",
    },
    ...jsonArg,
  },
  async run({ args }) {
    const { EDGETIER_PORT, EDGETIER_API_KEY } = process.env;
    const config = parseConfig(schema, {
      EDGETIER_PORT,
      EDGETIER_API_KEY: args["api-key"] ?? EDGETIER_API_KEY,
      url: args.url,
    });
    const url = config.url ?? `http://${LOOPBACK}:${config.EDGETIER_PORT}`;
    const prediction = await requestPrediction(url, args.model, await readInput(args), {
      apiKey: config.EDGETIER_API_KEY,
    });
    if (args.json) printJson(prediction);
    else printLine(renderTable(formatPredictionRows(prediction)));
  },
});

/** Reads the input from either the text or the file. @throws usage */
async function readInput({
  text,
  file,
}: {
  readonly text?: string | undefined;
  readonly file?: string | undefined;
}): Promise<PredictionInput> {
  if ((text === undefined) === (file === undefined))
    throw cliErrors.usage(
      "The input is missing or ambiguous; pass either a text or --file",
      "edgetier predict",
    );
  if (file === undefined) return { text: text ?? "" };
  const bytes = await readFile(file).catch((error: unknown) => {
    throw cliErrors.usage(`Cannot read --file ${file}: ${reasonOf(error)}`, "edgetier predict");
  });
  return { file: new Uint8Array(bytes) };
}
