// Load target: prepares all calls of a load before it starts, so that building them costs no time during the load.

import * as z from "zod";
import type { CacheMode } from "../../cache/cache-policy.ts";
import { reasonOf } from "../../core/errors.ts";
import { tryParseJson } from "../../core/json.ts";
import { DATATYPES, type NamedTensors, type TensorSpec } from "../../core/tensor.ts";
import { EMBEDDINGS_PATH } from "../../protocol/embeddings.ts";
import { toMessageHeaders } from "../../protocol/open-inference-http.ts";
import { encodeInferRequest } from "../../protocol/open-inference.ts";
import { DEFAULT_ALIAS, parseModelRef } from "../../registry/model-ref.ts";
import { cliErrors } from "../errors.ts";
import type { Call, Reply, Send } from "./http-sender.ts";
import {
  type LoadInput,
  type LoadInputs,
  readFileInput,
  readInputLines,
  readTensors,
  generateImages,
  generateTensors,
  generateTexts,
} from "./inputs.ts";
import { parseReplyError } from "./parse-reply.ts";

/**
 * Protocols. `predict`: POST /v1/models/{model}/predict. `embeddings`: POST /v1/embeddings.
 * `infer`: POST /v2/models/{model}/infer, with binary tensors.
 */
export const PROTOCOLS = ["predict", "embeddings", "infer"] as const;
export type Protocol = (typeof PROTOCOLS)[number];

export interface TargetOptions {
  readonly url: string;
  readonly model: string;
  /** Undefined selects the protocol by the model's task. */
  readonly protocol: Protocol | undefined;
  /** File with one input per line. Without it and `file`, inputs are generated. */
  readonly inputs: string | undefined;
  readonly file: string | undefined;
  readonly cache: Extract<CacheMode, "use" | "bypass" | "refresh">;
  /** Headers of every call. */
  readonly headers: Readonly<Record<string, string>>;
  readonly seed: number;
}

export interface Target {
  readonly protocol: Protocol;
  readonly inputs: { readonly count: number; readonly source: string };
  readonly calls: readonly Call[];
}

const TIMEOUT_MS = 30_000;
const NAME = "edgetier bench";

/** Fetches the model's task, prepares the calls, and checks one of them. @throws edge_unreachable, usage, or the server's error */
export async function createTarget(send: Send, options: TargetOptions): Promise<Target> {
  const checkedSend = (call: Call) =>
    sendChecked(send, options.url, { ...call, headers: { ...options.headers, ...call.headers } });
  const protocol = options.protocol ?? protocolOf(await fetchTask(checkedSend, options.model));
  const { calls, source } = await (protocol === "infer"
    ? createInferCalls(checkedSend, options)
    : createInputCalls(checkedSend, protocol, options));
  const [first] = calls;
  if (first === undefined)
    throw cliErrors.usage("There are no inputs; pass --inputs or --file", NAME);
  await checkedSend(first);
  return {
    protocol,
    inputs: { count: calls.length, source },
    calls: calls.map((call) => ({ ...call, headers: { ...options.headers, ...call.headers } })),
  };
}

type CheckedSend = (call: Call) => Promise<Reply>;

async function sendChecked(send: Send, url: string, call: Call): Promise<Reply> {
  const reply = await send(call, { timeoutMs: TIMEOUT_MS }).catch((error: unknown) => {
    throw cliErrors.edgeUnreachable(url, reasonOf(error), error);
  });
  const replyError = parseReplyError(reply);
  if (replyError === undefined) return reply;
  throw cliErrors.edgeRefused(
    replyError.code ?? "edge_refused",
    reply.status,
    `${url}${call.path} responded with status ${reply.status}: ${replyError.detail.slice(0, 500)}`,
    "Correct the request, for example with --protocol. No load was sent.",
  );
}

const taskSchema = z.object({ task: z.string() });

async function fetchTask(checkedSend: CheckedSend, model: string): Promise<string> {
  const reply = await checkedSend({ path: `/v1/models/${encodeURIComponent(model)}` });
  return parseReplyJson(taskSchema, reply, "states no task; pass --protocol").task;
}

const protocolOf = (task: string): Protocol =>
  task === "embedding" ? "embeddings" : task === "tensor" ? "infer" : "predict";

interface PreparedCalls {
  readonly calls: readonly Call[];
  readonly source: string;
}

async function createInputCalls(
  checkedSend: CheckedSend,
  protocol: "predict" | "embeddings",
  options: TargetOptions,
): Promise<PreparedCalls> {
  const { model, cache, seed } = options;
  const acceptsImages = async () =>
    protocol === "predict" && (await fetchTask(checkedSend, model)) === "image-classification";
  const { inputs, source }: LoadInputs =
    (await readGivenInputs(options)) ??
    ((await acceptsImages()) ? generateImages(seed) : generateTexts(seed));
  return {
    source,
    calls: inputs.map((input) =>
      protocol === "embeddings"
        ? createEmbeddingsCall(model, input, cache)
        : createPredictCall(model, input, cache),
    ),
  };
}

async function readGivenInputs({ inputs, file }: TargetOptions): Promise<LoadInputs | undefined> {
  if (inputs !== undefined) return await readInputLines(inputs, NAME);
  return file === undefined ? undefined : await readFileInput(file, NAME);
}

function createPredictCall(model: string, input: LoadInput, cache: TargetOptions["cache"]): Call {
  const path = `/v1/models/${encodeURIComponent(model)}/predict`;
  if (typeof input === "string")
    return {
      path,
      body: Buffer.from(
        JSON.stringify({ inputs: input, ...(cache === "use" ? {} : { parameters: { cache } }) }),
      ),
    };
  return {
    path: cache === "use" ? path : `${path}?cache=${cache}`,
    body: input.bytes,
    headers: { "content-type": input.mediaType },
  };
}

function createEmbeddingsCall(
  model: string,
  input: LoadInput,
  cache: TargetOptions["cache"],
): Call {
  if (typeof input !== "string")
    throw cliErrors.usage("/v1/embeddings accepts only texts; pass texts in --inputs", NAME);
  return {
    path: EMBEDDINGS_PATH,
    body: Buffer.from(JSON.stringify({ input, model, ...(cache === "use" ? {} : { cache }) })),
  };
}

const metadataSchema = z.object({
  inputs: z
    .array(z.object({ name: z.string(), datatype: z.enum(DATATYPES), shape: z.array(z.int()) }))
    .min(1),
});

async function createInferCalls(
  checkedSend: CheckedSend,
  options: TargetOptions,
): Promise<PreparedCalls> {
  if (options.cache !== "use")
    throw cliErrors.usage(
      `--cache ${options.cache} has no effect on /v2, which is not cached; omit --cache`,
      NAME,
    );
  const { model, target } = parseModelRef(options.model);
  const version = target.kind === "version" ? String(target.version) : target.alias;
  const path = `/v2/models/${model}${version === DEFAULT_ALIAS ? "" : `/versions/${version}`}`;
  const { inputs: specs } = parseReplyJson(
    metadataSchema,
    await checkedSend({ path }),
    "is not model metadata of the Open Inference Protocol",
  );
  const { rows, source } = await createTensorRows(specs, options);
  return { source, calls: rows.map((inputs) => createInferCall(`${path}/infer`, inputs)) };
}

function createInferCall(path: string, inputs: NamedTensors): Call {
  const message = encodeInferRequest({ inputs, parameters: { binary_data_output: true } }, true);
  return { path, body: message.body, headers: toMessageHeaders(message) };
}

/** Sends texts or images to a model with one BYTES input, and tensors to any other model. */
async function createTensorRows(
  specs: readonly TensorSpec[],
  options: TargetOptions,
): Promise<{ readonly rows: readonly NamedTensors[]; readonly source: string }> {
  const [spec] = specs;
  if (spec?.datatype !== "BYTES" || specs.length > 1)
    return options.inputs === undefined
      ? generateTensors(specs)
      : await readTensors(options.inputs, specs);
  const { inputs, source } = (await readGivenInputs(options)) ?? generateTexts(options.seed);
  const encoder = new TextEncoder();
  return {
    source,
    rows: inputs.map((input) => ({
      [spec.name]: {
        datatype: "BYTES",
        shape: spec.shape.map(() => 1),
        data: [typeof input === "string" ? encoder.encode(input) : input.bytes],
      },
    })),
  };
}

function parseReplyJson<Schema extends z.ZodType>(
  schema: Schema,
  { body }: Reply,
  problem: string,
): z.output<Schema> {
  const parsed = schema.safeParse(tryParseJson(body));
  if (!parsed.success) throw cliErrors.usage(`The response ${problem}`, NAME);
  return parsed.data;
}
