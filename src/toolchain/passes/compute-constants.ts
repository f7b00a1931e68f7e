// Computes the values of a graph that do not depend on its inputs, with the runtime. Each level of
// the graph runs as a separate model, whose output shapes are known beforehand, so oversized
// results are never computed.

import { create } from "@bufbuild/protobuf";
import { EdgeTierError } from "../../core/errors.ts";
import { countElements, type TensorSpec, typedArrays } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { readConstantTensor } from "../onnx/constants.ts";
import { subgraphsOf } from "../onnx/graph-traversal.ts";
import { type Model, serializeModel } from "../onnx/model-file.ts";
import { domainOf } from "../onnx/nodes.ts";
import {
  GraphProtoSchema,
  ModelProtoSchema,
  type NodeProto,
  NodeProtoSchema,
  type TensorProto,
  ValueInfoProtoSchema,
} from "../onnx/proto/onnx_pb.js";
import { datatypeOf, toTensorProto } from "../onnx/tensor-conversion.ts";
import { toDataType, withTensorName } from "../onnx/tensor-data.ts";
import type { Value, ValueTable } from "../onnx/value-table.ts";

/**
 * Operators whose results vary between runs, and operators on 8-bit values, which are to remain
 * 8-bit.
 */
const UNFOLDABLE_OPS = new Set([
  "RandomNormal",
  "RandomNormalLike",
  "RandomUniform",
  "RandomUniformLike",
  "Multinomial",
  "Bernoulli",
  "Dropout",
  "QuantizeLinear",
  "DequantizeLinear",
  "DynamicQuantizeLinear",
]);
/**
 * The output size of these depends on values, but is bounded by the input's size times its rank.
 */
const BOUNDED_SIZE_OPS = new Set(["NonZero", "Compress", "Unique"]);
/** Maximum size of one result. Larger ones are computed with each request. */
const MAX_CONSTANT_BYTES = 256 * 1024 * 1024;

/**
 * @returns constants of every kind; the tensors of computed ones do not have the names of their
 * values
 */
export async function computeConstants(
  model: Model,
  table: ValueTable,
  runtime: Runtime,
): Promise<ReadonlyMap<Value, TensorProto>> {
  const known = new Map<Value, TensorProto>();
  for (const value of table.values) {
    const tensor = readConstantTensor(value);
    if (tensor !== undefined) known.set(value, tensor);
  }
  let waiting = table.nodes.filter(
    (node) =>
      isFoldable(node, table) &&
      !table.outputsOf(node).every((value) => value === undefined || known.has(value)),
  );
  for (;;) {
    const [ready, later] = [[] as NodeProto[], [] as NodeProto[]];
    for (const node of waiting)
      (table.inputsOf(node).every((value) => value === undefined || known.has(value))
        ? ready
        : later
      ).push(node);
    if (ready.length === 0) return known;
    for (const [value, tensor] of await computeNodes(model, table, ready, known, runtime))
      known.set(value, tensor);
    waiting = later;
  }
}

function isFoldable(node: NodeProto, table: ValueTable): boolean {
  const datatypes = table.outputsOf(node).map((value) => value && datatypeOf(value.type ?? ""));
  const isServed = table
    .outputsOf(node)
    .every(
      (value, position) =>
        value === undefined ||
        (datatypes[position] !== undefined &&
          datatypes[position] !== "BYTES" &&
          datatypes[position] !== "BF16"),
    );
  return (
    domainOf(node) === "" &&
    !UNFOLDABLE_OPS.has(node.opType) &&
    subgraphsOf(node).length === 0 &&
    isServed
  );
}

type ComputedConstants = readonly (readonly [Value, TensorProto])[];

/** Leaves out nodes that the runtime cannot compute, or whose results are too large. */
async function computeNodes(
  model: Model,
  table: ValueTable,
  nodes: readonly NodeProto[],
  known: ReadonlyMap<Value, TensorProto>,
  runtime: Runtime,
): Promise<ComputedConstants> {
  const { bytes, names } = buildConstantModel(model, table, nodes, known);
  try {
    const session = await runtime.createSession(bytes);
    try {
      const shapes = new Map(session.outputs.map((spec) => [spec.name, spec]));
      const small = nodes.filter(
        (node) =>
          BOUNDED_SIZE_OPS.has(node.opType) ||
          table
            .outputsOf(node)
            .every((value) => value === undefined || isSmall(shapes.get(names.get(value) ?? ""))),
      );
      if (small.length === 0) return [];
      if (small.length < nodes.length)
        return await computeNodes(model, table, small, known, runtime);
      const outputs = await session.run({});
      return [...names].flatMap(([value, name]) => {
        const tensor = outputs[name];
        return tensor === undefined ? [] : [[value, toTensorProto(name, tensor)] as const];
      });
    } finally {
      await session.dispose();
    }
  } catch (error) {
    if (!(error instanceof EdgeTierError) || error.code === "internal") throw error;
    if (nodes.length === 1) return [];
    const each: (readonly [Value, TensorProto])[] = [];
    for (const node of nodes)
      each.push(...(await computeNodes(model, table, [node], known, runtime)));
    return each;
  }
}

function isSmall(spec: TensorSpec | undefined): boolean {
  if (spec === undefined || spec.datatype === "BYTES" || spec.shape.includes(-1)) return false;
  try {
    return (
      countElements(spec.name, spec.shape) * typedArrays[spec.datatype].BYTES_PER_ELEMENT <=
      MAX_CONSTANT_BYTES
    );
  } catch {
    // The shape has too many elements to count.
    return false;
  }
}

/** Renames all values, because nodes of different graphs may use the same names. */
function buildConstantModel(
  { irVersion, opsetImport }: Model,
  table: ValueTable,
  nodes: readonly NodeProto[],
  known: ReadonlyMap<Value, TensorProto>,
): { bytes: Uint8Array; names: ReadonlyMap<Value, string> } {
  const inputs = new Map<Value, string>();
  const outputs = new Map<Value, string>();
  const nameIn = (names: Map<Value, string>, prefix: string, value: Value | undefined): string => {
    if (value === undefined) return "";
    const name = names.get(value) ?? `${prefix}${names.size}`;
    names.set(value, name);
    return name;
  };
  const copies = nodes.map((node) => {
    const { opType, domain, attribute } = node;
    return create(NodeProtoSchema, {
      opType,
      domain,
      attribute,
      input: table.inputsOf(node).map((value) => nameIn(inputs, "in", value)),
      output: table.outputsOf(node).map((value) => nameIn(outputs, "out", value)),
    });
  });
  const graph = create(GraphProtoSchema, {
    name: "constants",
    node: copies,
    initializer: [...inputs].flatMap(([value, name]) => initializerFor(known.get(value), name)),
    output: [...outputs].map(([{ type = "" }, name]) =>
      create(ValueInfoProtoSchema, {
        name,
        type: { value: { case: "tensorType", value: { elemType: toDataType(type) } } },
      }),
    ),
  });
  const version = irVersion < 4n ? 4n : irVersion;
  return {
    bytes: serializeModel(create(ModelProtoSchema, { irVersion: version, opsetImport, graph })),
    names: outputs,
  };
}

const initializerFor = (tensor: TensorProto | undefined, name: string): TensorProto[] =>
  tensor === undefined ? [] : [withTensorName(tensor, name)];
