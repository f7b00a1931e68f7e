// `edgetier predict --model intent "text"`, or `--file photo.jpg`: one prediction through an edge.

import { cliErrors } from "../errors.ts";
import { readFile } from "node:fs/promises";
import { defineCommand } from "citty";
import * as z from "zod";
import { httpUrlText, parseConfig } from "../../core/config.ts";
import { reasonOf } from "../../core/errors.ts";
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
  meta: { name: "predict", description: "Ask an edge for one prediction" },
  args: {
    text: { type: "positional", description: "The input", required: false },
    file: {
      type: "string",
      valueHint: "path",
      description: "A file that is the input, such as a JPEG or PNG",
    },
    model: {
      type: "string",
      valueHint: "ref",
      description: "name, name@version or name@alias",
      required: true,
    },
    url: {
      type: "string",
      valueHint: "url",
      description: "Address of the edge; otherwise the local system's, http://127.0.0.1:8787",
    },
    "api-key": {
      type: "string",
      valueHint: "key",
      description:
        "Key or token for the edge; otherwise EDGETIER_API_KEY, which other users of this machine cannot see",
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

/** @throws usage unless there is either a text or a file that can be read */
async function readInput({
  text,
  file,
}: {
  readonly text?: string | undefined;
  readonly file?: string | undefined;
}): Promise<PredictionInput> {
  if ((text === undefined) === (file === undefined))
    throw cliErrors.usage("Give a text, or a file with --file", "edgetier predict");
  if (file === undefined) return { text: text ?? "" };
  const bytes = await readFile(file).catch((error: unknown) => {
    throw cliErrors.usage(`--file ${file} cannot be read: ${reasonOf(error)}`, "edgetier predict");
  });
  return { file: new Uint8Array(bytes) };
}
