// Workloads: the benchmark's models and their requests. Requests are built beforehand, so that building
// them costs the client nothing during the measurement.
import type { NamedTensors, TensorOf, TensorSpec } from "../../../src/core/tensor.ts";
import { toMessageHeaders } from "../../../src/protocol/open-inference-http.ts";
import { encodeInferRequest } from "../../../src/protocol/open-inference.ts";
import type { ModelProject } from "../../../src/registry/manifest.ts";
import type { PublishSource } from "../../../src/registry/publish.ts";
import { TASK_INPUT_NAME } from "../../../src/tasks/task.ts";
import { textClassificationTask } from "../../../src/tasks/text-classification.ts";
import type { Call } from "../lib/checked-load.ts";
import type { Random } from "../lib/random.ts";

export interface Workload {
  readonly model: string;
  readonly calls: readonly Call[];
}

export type Encoding = "json" | "binary";

const INTENT = "intent";
/** Token count of a client that pads to equal lengths; only few texts are longer. */
export const INTENT_TOKENS = 16;
/** The input of convolutional models. */
export const PIXELS_INPUT = "pixels";
const DISTINCT_TENSORS = 64;
const DEADLINE_MS = 10_000;

/** The task's own inputs, as the edge sends them. */
export function createTextWorkload(texts: readonly string[]): Workload {
  const encoder = new TextEncoder();
  const inputs = (text: string): NamedTensors => ({
    [TASK_INPUT_NAME]: { datatype: "BYTES", shape: [1], data: [encoder.encode(text)] },
  });
  return {
    model: INTENT,
    calls: texts.map((text) => createInferCall(INTENT, inputs(text), "binary")),
  };
}

/** The graph's own tensors, of texts that are all padded to INTENT_TOKENS, for servers that know no text. */
export function createTensorWorkload(
  project: PublishSource,
  texts: readonly string[],
  encoding: Encoding,
): Workload {
  const tier = regionTierOf(project);
  if (tier.preprocessor?.kind !== "wordpiece")
    throw new Error(`${INTENT} is expected to have a wordpiece tokenizer`);
  const artifact = fileOf(project, tier.preprocessor.artifact);
  const preprocessor = textClassificationTask.createPreprocessor({
    kind: "wordpiece",
    maxTokens: tier.preprocessor.maxTokens,
    artifact,
  });
  const tensors = texts
    .map((text) => preprocessor.encode([{ kind: "text", text }]))
    .filter((tokens) => lengthOf(tokens) <= INTENT_TOKENS);
  return {
    model: INTENT,
    calls: tensors.map((tokens) => createInferCall(INTENT, padded(tokens), encoding)),
  };
}

const lengthOf = (tensors: NamedTensors) => Object.values(tensors)[0]?.shape[1] ?? 0;

function padded(tensors: NamedTensors): NamedTensors {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]) => {
      if (tensor.datatype !== "INT64") throw new Error(`${name} is expected to be INT64`);
      const data = new BigInt64Array(INTENT_TOKENS);
      data.set(tensor.data);
      return [name, { datatype: "INT64", shape: [1, INTENT_TOKENS], data }];
    }),
  );
}

/** One row of noise a request. */
export function createNoiseWorkload(
  model: string,
  spec: TensorSpec,
  random: Random,
  encoding: Encoding,
): Workload {
  const calls = Array.from({ length: DISTINCT_TENSORS }, () =>
    createInferCall(model, { [spec.name]: createNoiseTensor(spec, 1, random) }, encoding),
  );
  return { model, calls };
}

/** From -1 to 1. */
export function createNoiseTensor(
  { shape }: TensorSpec,
  rows: number,
  random: Random,
): TensorOf<"FP32"> {
  const own = [rows, ...shape.slice(1)];
  return {
    datatype: "FP32",
    shape: own,
    data: Float32Array.from(
      { length: own.reduce((product, count) => product * count, 1) },
      () => 2 * random.next() - 1,
    ),
  };
}

export function createInferCall(model: string, inputs: NamedTensors, encoding: Encoding): Call {
  const isBinary = encoding === "binary";
  const message = encodeInferRequest(
    { inputs, ...(isBinary && { parameters: { binary_data_output: true } }) },
    isBinary,
  );
  return {
    path: `/v2/models/${model}/infer`,
    body: message.body,
    headers: toMessageHeaders(message),
  };
}

export interface GraphModel {
  readonly name: string;
  readonly graph: Uint8Array;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

export function pixelSpecOf({ name, inputs }: GraphModel): TensorSpec {
  const spec = inputs.find((input) => input.name === PIXELS_INPUT);
  if (spec === undefined) throw new Error(`${name} takes no ${PIXELS_INPUT}`);
  return spec;
}

/** A project of the task `tensor`, with only a region graph. */
export function createProject({ name, graph, inputs, outputs }: GraphModel): PublishSource {
  const specs = (ports: readonly TensorSpec[]) =>
    ports.map((spec) => ({ ...spec, shape: [...spec.shape] }));
  const project: ModelProject = {
    schemaVersion: 1,
    model: name,
    task: "tensor",
    description: "",
    deadlineMs: DEADLINE_MS,
    tiers: [
      {
        id: "region",
        place: "region",
        precision: "fp32",
        graph: "graph.onnx",
        inputs: specs(inputs),
        outputs: specs(outputs),
        figures: {},
      },
    ],
    figures: {},
    provenance: {},
  };
  return { project, files: new Map([["graph.onnx", graph]]) };
}

/** The region's graph of a project, for those who run it themselves. */
export function readGraphModel(source: PublishSource): GraphModel {
  const { graph, inputs, outputs } = regionTierOf(source);
  return { name: source.project.model, graph: fileOf(source, graph), inputs, outputs };
}

function regionTierOf({ project }: PublishSource) {
  const tiers =
    project.task === "text-classification"
      ? project.tiers.filter((tier) => tier.place === "region")
      : [];
  const tier = tiers.at(-1);
  if (tier === undefined) throw new Error(`${project.model} has no region tier that takes texts`);
  return tier;
}

function fileOf({ files }: PublishSource, path: string): Uint8Array {
  const bytes = files.get(path);
  if (bytes === undefined) throw new Error(`${path} is missing`);
  return bytes;
}
