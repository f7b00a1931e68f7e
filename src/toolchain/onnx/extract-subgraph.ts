// Cuts a part of a model out as a model of its own.

import { onnxErrors } from "./errors.ts";
import { create } from "@bufbuild/protobuf";
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
import { subgraphsOf, traverseGraphs } from "./graph-traversal.ts";

export interface SubgraphBounds {
  /** Values that become inputs: what makes them is left out. Those that the outputs do not need are dropped. */
  readonly inputs?: readonly string[];
  readonly outputs: readonly string[];
}

/**
 * The part of the main graph that makes `outputs` from `inputs`; the model's own inputs that it needs besides stay inputs.
 * It shares nodes and tensors with the model, so a change of one is a change of both.
 * @throws not_cuttable, invalid_model_file
 */
export function extractSubgraph(model: Model, { inputs = [], outputs }: SubgraphBounds): Model {
  const table = buildValueTable(model);
  const values = new Map(
    table.values.filter(({ graph }) => graph === model.graph).map((value) => [value.name, value]),
  );
  const named = (name: string): Value => {
    const value = values.get(name);
    if (value === undefined) throw onnxErrors.notCuttable(name, "the graph has no such value");
    return value;
  };
  const borders = new Set(inputs.map(named));
  const ends = outputs.map(named);
  const needed = findRequiredValues(model.graph, table, ends, borders);
  const untouched = ends.find((value) => borders.has(value) || value.origin.kind !== "node");
  if (untouched !== undefined)
    throw onnxErrors.notCuttable(untouched.name, "no node of the part makes it");

  const { graph } = model;
  const infos = new Map(
    [...graph.valueInfo, ...graph.output, ...graph.input].map((info) => [info.name, info]),
  );
  const rankOf = inferRanks(model, table);
  const infoOf = (value: Value) => infos.get(value.name) ?? inferValueInfo(value, rankOf(value));
  const part = create(GraphProtoSchema, {
    name: graph.name,
    input: [
      ...[...borders].filter((value) => needed.has(value)).map(infoOf),
      ...graph.input.filter(({ name }) => !inputs.includes(name) && has(needed, values.get(name))),
    ],
    output: ends.map(infoOf),
    node: graph.node.filter((node) =>
      table.outputsOf(node).some((value) => has(needed, value) && !has(borders, value)),
    ),
    initializer: graph.initializer.filter(
      ({ name }) => has(needed, values.get(name)) && !inputs.includes(name),
    ),
    sparseInitializer: graph.sparseInitializer.filter(
      ({ values: tensor }) =>
        has(needed, values.get(tensor?.name ?? "")) && !inputs.includes(tensor?.name ?? ""),
    ),
    valueInfo: graph.valueInfo.filter(
      ({ name }) =>
        has(needed, values.get(name)) && !inputs.includes(name) && !outputs.includes(name),
    ),
  });
  const { irVersion, opsetImport, functions } = model;
  return Object.assign(create(ModelProtoSchema, { irVersion, opsetImport, functions }), {
    graph: part,
  });
}

const has = <Item>(items: ReadonlySet<Item>, item: Item | undefined): boolean =>
  item !== undefined && items.has(item);

/** All values of the main graph that the ends need, the ends and the borders among them. */
function findRequiredValues(
  main: GraphProto,
  table: ValueTable,
  ends: readonly Value[],
  borders: ReadonlySet<Value>,
): ReadonlySet<Value> {
  const needed = new Set<Value>();
  const waiting = [...ends];
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    if (needed.has(value)) continue;
    needed.add(value);
    if (value.origin.kind === "node" && !borders.has(value))
      waiting.push(...valuesReadBy(value.origin.node, main, table));
  }
  return needed;
}

/** By the node itself, and by its bodies from outside of them. */
function valuesReadBy(node: NodeProto, main: GraphProto, table: ValueTable): Value[] {
  const bodies = subgraphsOf(node).flatMap((body) => [...traverseGraphs(body)]);
  const within = bodies.flatMap((body) => [
    ...body.node.flatMap((one) => table.inputsOf(one)),
    ...table.outputsOfGraph(body),
  ]);
  return [...table.inputsOf(node), ...within].flatMap((value) =>
    value?.graph === main ? [value] : [],
  );
}

/** With as many dimensions as are known; a session of onnxruntime-node takes an undeclared number of them for none. */
function inferValueInfo({ name, type }: Value, rank: number | undefined): ValueInfoProto {
  if (type === undefined || !isTensorType(type))
    throw onnxErrors.notCuttable(
      name,
      type === undefined
        ? "nothing tells its type"
        : `it is ${type}, and nothing in the graph declares it`,
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
