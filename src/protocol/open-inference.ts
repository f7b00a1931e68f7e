// The Open Inference Protocol v2: infer requests and responses, and metadata. Both sides of it, for edge and region.
// https://github.com/kserve/open-inference-protocol
//
// JSON only so far. Binary tensors come in where `readData` picks an input's form and where a body is encoded.

import { z } from "zod";
import { problemsOf } from "../core/config.ts";
import { errors } from "../core/errors.ts";
import { DATATYPES, type NamedTensors, type Tensor, type TensorSpec } from "../core/tensor.ts";
import { decodeJsonTensor, encodeJsonData } from "./json-tensors.ts";
import { parseJson } from "./json.ts";

export type Parameters = Readonly<Record<string, string | number | boolean>>;

export interface InferRequest {
  /** Echoed in the response. */
  readonly id?: string | undefined;
  readonly parameters?: Parameters;
  readonly inputs: NamedTensors;
  /** What to answer with, in this order; all outputs where absent. */
  readonly outputs?: readonly RequestedOutput[] | undefined;
}

export interface RequestedOutput {
  readonly name: string;
  readonly parameters?: Parameters;
}

export interface InferResponse {
  readonly model: string;
  readonly version?: string | undefined;
  readonly id?: string | undefined;
  readonly parameters?: Parameters;
  readonly outputs: NamedTensors;
}

/** `GET /v2/models/{model}`; -1 is a variable dimension. */
export interface ModelMetadata {
  readonly name: string;
  readonly versions: readonly string[];
  readonly platform: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

/** `GET /v2` */
export interface ServerMetadata {
  readonly name: string;
  readonly version: string;
  readonly extensions: readonly string[];
}

const MAX_TENSORS = 256;
const MAX_PARAMETERS = 64;
const MAX_RANK = 32;
/** A body can be wrong in a million places; this many are enough to say. */
const MAX_PROBLEMS = 8;

/** Counts before it looks at the elements, so that a long list of nonsense is refused at once. */
const listOf = <Element extends z.ZodType>(element: Element, max: number) =>
  z
    .custom<unknown[]>(Array.isArray, "must be an array")
    .refine((list) => list.length <= max, `must have at most ${max} elements`)
    .pipe(z.array(element));

const parameters = z
  .custom<object>((value) => typeof value === "object" && value !== null && !Array.isArray(value), "must be an object")
  .refine((value) => Object.keys(value).length <= MAX_PARAMETERS, `must have at most ${MAX_PARAMETERS} entries`)
  .pipe(z.record(z.string(), z.union([z.string(), z.number(), z.boolean()], "must be a text, a number or true or false")))
  .nullish()
  .transform((value) => value ?? {});

const tensorFields = {
  name: z.string().min(1).max(256),
  shape: listOf(z.int("must be a whole number below 2^53").min(0, "must not be negative"), MAX_RANK),
  datatype: z.enum(DATATYPES, `must be one of ${DATATYPES.join(", ")}`),
  parameters,
  data: z.unknown().optional(),
};

const requestSchema = z.object({
  id: z.string().max(1024).nullish(),
  parameters,
  // Strict: a field unknown here may well be the tensor's data in a form that we would then miss.
  inputs: listOf(z.strictObject(tensorFields), MAX_TENSORS),
  outputs: listOf(z.object({ name: tensorFields.name, parameters }), MAX_TENSORS).nullish(),
});

const responseSchema = z.object({
  model_name: z.string(),
  model_version: z.string().nullish(),
  id: z.string().nullish(),
  parameters,
  outputs: listOf(z.object(tensorFields), MAX_TENSORS),
});

type TensorMessage = z.output<typeof requestSchema>["inputs"][number];

/** @throws invalid_utf8, invalid_json, invalid_request, invalid_tensor, unsupported */
export function decodeInferRequest(body: Uint8Array): InferRequest {
  const message = parseMessage(requestSchema, body);
  const outputs = message.outputs ?? [];
  outputs.forEach((output, index) => refuseRepeated(outputs, output.name, index));
  return {
    id: message.id ?? undefined,
    parameters: message.parameters,
    inputs: readTensors(message.inputs),
    outputs: outputs.length > 0 ? outputs : undefined,
  };
}

/** @throws as decodeInferRequest */
export function decodeInferResponse(body: Uint8Array): InferResponse {
  const message = parseMessage(responseSchema, body);
  return {
    model: message.model_name,
    version: message.model_version ?? undefined,
    id: message.id ?? undefined,
    parameters: message.parameters,
    outputs: readTensors(message.outputs),
  };
}

/** @throws invalid_tensor for a tensor that has no form in JSON. */
export function encodeInferRequest(request: InferRequest): string {
  const { id, parameters, inputs, outputs } = request;
  return JSON.stringify({ id, parameters, inputs: writeTensors(inputs), outputs });
}

/** @throws invalid_tensor for a tensor that has no form in JSON. */
export function encodeInferResponse(response: InferResponse): string {
  const { model, version, id, parameters, outputs } = response;
  return JSON.stringify({ model_name: model, model_version: version, id, parameters, outputs: writeTensors(outputs) });
}

function parseMessage<Schema extends z.ZodType>(schema: Schema, body: Uint8Array): z.output<Schema> {
  const parsed = schema.safeParse(parseJson(body));
  if (!parsed.success) throw errors.invalidRequest(problemsOf(parsed.error).slice(0, MAX_PROBLEMS));
  return parsed.data;
}

function readTensors(messages: readonly TensorMessage[]): NamedTensors {
  return Object.fromEntries(
    messages.map((message, index) => {
      refuseRepeated(messages, message.name, index);
      return [message.name, readData(message)];
    }),
  );
}

/** The one place that chooses between the forms in which a tensor's data may come. */
function readData({ name, datatype, shape, parameters, data }: TensorMessage): Tensor {
  if ("shared_memory_region" in parameters) throw errors.unsupported(`Shared memory (tensor ${name})`, "Send the tensor's data in the request.");
  const binary = "binary_data_size" in parameters;
  if (binary === (data !== undefined)) throw errors.invalidTensor(name, "it needs exactly one of data and parameters.binary_data_size");
  if (binary) throw errors.unsupported(`Binary tensor data (tensor ${name})`, "Send the tensor's data as JSON.");
  if (datatype === "FP16" || datatype === "BF16") throw errors.invalidTensor(name, `${datatype} has no form in JSON; it needs binary data`);
  return decodeJsonTensor(name, datatype, shape, data);
}

function writeTensors(tensors: NamedTensors): object[] {
  return Object.entries(tensors).map(([name, tensor]) => ({
    name,
    datatype: tensor.datatype,
    shape: tensor.shape,
    data: encodeJsonData(name, tensor),
  }));
}

function refuseRepeated(list: readonly { readonly name: string }[], name: string, index: number): void {
  if (list.findIndex((other) => other.name === name) !== index) throw errors.invalidTensor(name, "it is given more than once");
}
