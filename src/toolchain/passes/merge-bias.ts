// Makes a constant that is added after a layer the layer's bias, and MatMul with such an Add a Gemm.

import { constantTensorOf } from "../onnx/constants.ts";
import { FreshNames, NodeChanges, setInput } from "../onnx/edit.ts";
import { makerOf, soleReaderOf } from "../onnx/find.ts";
import { addInitializer } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import { isOnnxNode } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { ranksOf } from "../onnx/ranks.ts";
import { makeTensor } from "../onnx/tensors.ts";
import type { Value } from "../onnx/values.ts";
import { layerOf, perChannel, rewriteLayer } from "./layer.ts";
import { tableOf } from "./pass.ts";

/** Before it, Add and Gemm broadcast only where an attribute says so. */
const OLDEST_OPSET = 7;

/** @returns Adds that are gone */
export function mergeBias(model: Model): number {
  if ((opsetsOf(model).get("") ?? 0) < OLDEST_OPSET) return 0;
  const table = tableOf(model);
  const rankOf = ranksOf(model, table);
  const names = new FreshNames(model);
  const changes = new NodeChanges();
  const changed = new Set<NodeProto>();
  for (const node of table.nodes) {
    if (!isOnnxNode(node, "Add")) continue;
    const [left, right] = table.inputsOf(node);
    const maker = mergedInto(node, left, right) ?? mergedInto(node, right, left);
    if (maker === undefined) continue;
    maker.output[0] = node.output[0] ?? "";
    changed.add(maker);
    changes.remove(node);
  }
  changes.apply(model);
  return changed.size;

  /** The node that adds `summand` to `value` itself from now on. */
  function mergedInto(
    add: NodeProto,
    value: Value | undefined,
    summand: Value | undefined,
  ): NodeProto | undefined {
    if (
      value?.origin.kind !== "node" ||
      changed.has(value.origin.node) ||
      soleReaderOf(value) !== add
    )
      return undefined;
    return intoLayer(value, summand) ?? intoGemm(value, summand);
  }

  function intoLayer(value: Value, summand: Value | undefined): NodeProto | undefined {
    const layer = layerOf(value, table);
    const added = layer && perChannel(summand, layer.channels, layer.rank, 1);
    if (layer === undefined || added === undefined) return undefined;
    rewriteLayer(model, names, layer, {
      bias: layer.bias.map((one, channel) => one + (added[channel] ?? 0)),
    });
    return layer.node;
  }

  function intoGemm(value: Value, summand: Value | undefined): NodeProto | undefined {
    const node = makerOf(value, "MatMul");
    const [first, second] = node === undefined ? [] : table.inputsOf(node);
    const dims = constantTensorOf(second)?.dims;
    if (node === undefined || dims?.length !== 2 || rankOf(first) !== 2 || value.type !== "float")
      return undefined;
    const columns = Number(dims[1]);
    const added = perChannel(summand, columns, 2, 1);
    if (added === undefined) return undefined;
    const name = names.take(`${node.output[0]}_bias`);
    addInitializer(
      model,
      value.graph,
      makeTensor(name, "float", [BigInt(columns)], Float32Array.from(added)),
    );
    node.opType = "Gemm";
    setInput(node, 2, name);
    return node;
  }
}
