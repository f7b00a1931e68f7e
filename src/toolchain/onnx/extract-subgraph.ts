// Extracts a part of a model as a separate model.

import { create } from "@bufbuild/protobuf";
import { onnxErrors } from "./errors.ts";
import { subgraphsOf, traverseGraphs } from "./graph-traversal.ts";
import type { Model } from "./model-file.ts";
import {
  type GraphProto,
  GraphProtoSchema,
  ModelProtoSchema,
  type NodeProto,
  type ValueInfoProto,
  ValueInfoProtoSchema,
} from "./proto/onnx_pb.js";
import { inferRanks } from "./rank-inference.ts";
import { toDataType } from "./tensor-data.ts";
import { isTensorType } from "./type-inference.ts";
import { type Value, type ValueTable, buildValueTable } from "./value-table.ts";

export interface SubgraphBounds {
  /**
   * Values that become inputs. The nodes that produce them are left out; inputs that no output
   * needs are dropped.
   */
  readonly inputs?: readonly string[];
  readonly outputs: readonly string[];
}

/**
 * Extracts the part of the main graph that computes `outputs` from `inputs`. Any of the model's own
 * inputs that the part also needs remain inputs. The result shares nodes and tensors with the
 * model, so changing one changes both.
 * @throws not_cuttable, invalid_model_file
 */
export function extractSubgraph(model: Model, { inputs = [], outputs }: SubgraphBounds): Model {
  const table = buildValueTable(model);
  const values = new Map(
    table.values.filter(({ graph }) => graph === model.graph).map((value) => [value.name, value]),
  );
  const findValue = (name: string): Value => {
    const value = values.get(name);
    if (value === undefined) throw onnxErrors.notCuttable(name, "the graph has no such value");
    return value;
  };
  const boundary = new Set(inputs.map(findValue));
  const endpoints = outputs.map(findValue);
  const needed = findRequiredValues(model.graph, table, endpoints, boundary);
  const unproduced = endpoints.find((value) => boundary.has(value) || value.origin.kind !== "node");
  if (unproduced !== undefined)
    throw onnxErrors.notCuttable(unproduced.name, "no node of the extracted part produces it");

  const { graph } = model;
  const infos = new Map(
    [...graph.valueInfo, ...graph.output, ...graph.input].map((info) => [info.name, info]),
  );
  const rankOf = inferRanks(model, table);
  const infoOf = (value: Value) => infos.get(value.name) ?? inferValueInfo(value, rankOf(value));
  const part = create(GraphProtoSchema, {
    name: graph.name,
    input: [
      ...[...boundary].filter((value) => needed.has(value)).map(infoOf),
      ...graph.input.filter(
        ({ name }) => !inputs.includes(name) && includes(needed, values.get(name)),
      ),
    ],
    output: endpoints.map(infoOf),
    node: graph.node.filter((node) =>
      table.outputsOf(node).some((value) => includes(needed, value) && !includes(boundary, value)),
    ),
    initializer: graph.initializer.filter(
      ({ name }) => includes(needed, values.get(name)) && !inputs.includes(name),
    ),
    sparseInitializer: graph.sparseInitializer.filter(
      ({ values: tensor }) =>
        includes(needed, values.get(tensor?.name ?? "")) && !inputs.includes(tensor?.name ?? ""),
    ),
    valueInfo: graph.valueInfo.filter(
      ({ name }) =>
        includes(needed, values.get(name)) && !inputs.includes(name) && !outputs.includes(name),
    ),
  });
  const { irVersion, opsetImport, functions } = model;
  return Object.assign(create(ModelProtoSchema, { irVersion, opsetImport, functions }), {
    graph: part,
  });
}

const includes = <Item>(items: ReadonlySet<Item>, item: Item | undefined): boolean =>
  item !== undefined && items.has(item);

/**
 * Collects the values of the main graph that the endpoints depend on, including the endpoints and
 * the boundary.
 */
function findRequiredValues(
  main: GraphProto,
  table: ValueTable,
  endpoints: readonly Value[],
  boundary: ReadonlySet<Value>,
): ReadonlySet<Value> {
  const needed = new Set<Value>();
  const waiting = [...endpoints];
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    if (needed.has(value)) continue;
    needed.add(value);
    if (value.origin.kind === "node" && !boundary.has(value))
      waiting.push(...valuesReadBy(value.origin.node, main, table));
  }
  return needed;
}

/** Lists the main graph's values that the node reads, directly or from within its bodies. */
function valuesReadBy(node: NodeProto, main: GraphProto, table: ValueTable): Value[] {
  const bodies = subgraphsOf(node).flatMap((body) => [...traverseGraphs(body)]);
  const within = bodies.flatMap((body) => [
    ...body.node.flatMap((inner) => table.inputsOf(inner)),
    ...table.outputsOfGraph(body),
  ]);
  return [...table.inputsOf(node), ...within].flatMap((value) =>
    value?.graph === main ? [value] : [],
  );
}

/** Declares the rank if it is known, because onnxruntime-node treats a missing shape as rank 0. */
function inferValueInfo({ name, type }: Value, rank: number | undefined): ValueInfoProto {
  if (type === undefined || !isTensorType(type))
    throw onnxErrors.notCuttable(
      name,
      type === undefined
        ? "its type is unknown"
        : `it is ${type}, and the graph does not declare its type`,
    );
  return create(ValueInfoProtoSchema, {
    name,
    type: {
      value: {
        case: "tensorType",
        value: {
          elemType: toDataType(type),
          ...(rank === undefined
            ? {}
            : { shape: { dim: Array.from({ length: rank }, () => ({})) } }),
        },
      },
    },
  });
}
