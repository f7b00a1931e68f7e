// Tensor model: publishes a model of the task `tensor` over any graph. No imports from Node: suites in workerd use it too.
import type { Datatype, TensorSpec } from "../../src/core/tensor.ts";
import { modelProjectSchema, type TensorManifest } from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import type { PublishSource } from "../../src/registry/publish.ts";

export interface TensorGraph {
  readonly bytes: Uint8Array;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

export interface TensorModelOptions {
  readonly version?: number;
  readonly deadlineMs?: number;
  /** Places of the tiers; each tier is named after its place. */
  readonly places?: readonly ("edge" | "region")[];
  readonly labels?: readonly string[];
  readonly edit?: (tier: TensorManifest["tiers"][number]) => TensorManifest["tiers"][number];
}

/** Publishes a version and sets the alias `stable` to it. */
export async function publishTensorModel(
  store: ModelStore,
  model: string,
  graph: TensorGraph,
  options: TensorModelOptions = {},
): Promise<TensorManifest> {
  const {
    version = 1,
    deadlineMs = 1_000,
    places = ["edge", "region"],
    labels,
    edit = (tier) => tier,
  } = options;
  const { ref } = await store.writeArtifact(graph.bytes);
  const copies = (specs: readonly TensorSpec[]) =>
    specs.map((spec) => ({ ...spec, shape: [...spec.shape] }));
  const tierAt = (place: "edge" | "region") => ({
    id: place,
    place,
    precision: "fp32" as const,
    graph: ref,
    inputs: copies(graph.inputs),
    outputs: copies(graph.outputs),
    figures: {},
  });
  const manifest: TensorManifest = {
    schemaVersion: 1,
    model,
    version,
    task: "tensor",
    description: "",
    ...(labels === undefined
      ? {}
      : {
          labels: (await store.writeArtifact(new TextEncoder().encode(JSON.stringify(labels)))).ref,
        }),
    deadlineMs,
    tiers: places.map((place) => edit(tierAt(place))),
    figures: {},
    provenance: {},
  };
  await store.writeManifest(manifest);
  const before = await store.readAliases(model);
  await store.writeAliases(model, { ...before?.aliases, stable: version }, before?.etag);
  return manifest;
}

/** Project of a tensor model with an edge tier and a region tier. */
export function tensorProject(
  model: string,
  { bytes, inputs, outputs }: TensorGraph,
  labels?: readonly string[],
): PublishSource {
  const tierAt = (place: string) => ({
    id: place,
    place,
    precision: "fp32",
    graph: "graph.onnx",
    inputs,
    outputs,
  });
  const project = modelProjectSchema.parse({
    schemaVersion: 1,
    model,
    task: "tensor",
    deadlineMs: 1_000,
    tiers: ["edge", "region"].map(tierAt),
    ...(labels === undefined ? {} : { labels: "labels.json" }),
  });
  return {
    project,
    files: new Map([
      ["graph.onnx", bytes],
      ["labels.json", new TextEncoder().encode(JSON.stringify(labels ?? []))],
    ]),
  };
}

/** test/fixtures/identity-all.onnx: an identity graph with an input and an output of each datatype that both runtimes support. */
export const IDENTITY_DATATYPES = [
  "BOOL",
  "UINT8",
  "UINT16",
  "UINT32",
  "UINT64",
  "INT8",
  "INT16",
  "INT32",
  "INT64",
  "FP16",
  "FP32",
  "FP64",
] as const satisfies readonly Datatype[];
const identitySpecs = (end: string): TensorSpec[] =>
  IDENTITY_DATATYPES.map((datatype) => ({
    name: `${datatype.toLowerCase()}_${end}`,
    datatype,
    shape: [-1],
  }));
export const identityGraph = (bytes: Uint8Array): TensorGraph => ({
  bytes,
  inputs: identitySpecs("in"),
  outputs: identitySpecs("out"),
});

/** test/fixtures/int8-matmul.onnx: y = x . [[1, -2], [3, 4], [-5, 6]] + [10, 20]. */
export const int8MatMulGraph = (bytes: Uint8Array): TensorGraph => ({
  bytes,
  inputs: [{ name: "x", datatype: "UINT8", shape: [-1, 3] }],
  outputs: [{ name: "y", datatype: "INT32", shape: [-1, 2] }],
});

/** test/fixtures/string-identity.onnx */
export const stringIdentityGraph = (bytes: Uint8Array): TensorGraph => ({
  bytes,
  inputs: [{ name: "x", datatype: "BYTES", shape: [-1] }],
  outputs: [{ name: "y", datatype: "BYTES", shape: [-1] }],
});
