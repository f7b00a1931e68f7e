// What of a model can be judged without running it: whether its operators are known, and its weights numbers.

import { decodeFloat16 } from "../fp16/float16.ts";
import type { Model } from "../onnx/model-file.ts";
import { domainOf, isOnnxOp } from "../onnx/nodes.ts";
import { opsetsOf, findSignature } from "../onnx/operators/signatures.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { toDataType } from "../onnx/tensor-data.ts";
import { toTensor } from "../onnx/tensor-conversion.ts";
import { traverseGraphs, tensorsOfGraph } from "../onnx/graph-traversal.ts";
import type { ImportProblem } from "./import-problem.ts";

/** Operators that neither ONNX's nor ONNX Runtime's specification has in the version that the model uses, and that are no functions of the model's own. */
export function findOperatorProblems(model: Model): ImportProblem[] {
  const functions = new Set(model.functions.map(({ domain, name }) => `${domain}.${name}`));
  const bodies = [
    { opsets: opsetsOf(model), nodes: listNodes(model) },
    ...model.functions.map((one) => ({ opsets: opsetsOf(one), nodes: one.node })),
  ];
  const unknown = new Map<
    string,
    { readonly count: number; readonly node: NodeProto; readonly version: number | undefined }
  >();
  for (const { opsets, nodes } of bodies) {
    for (const node of nodes) {
      if (
        functions.has(`${node.domain}.${node.opType}`) ||
        findSignature(node, opsets) !== undefined
      )
        continue;
      unknown.set(qualifiedOpType(node), {
        count: (unknown.get(qualifiedOpType(node))?.count ?? 0) + 1,
        node,
        version: opsets.get(domainOf(node)),
      });
    }
  }
  return [...unknown].map(([name, { count, node, version }]) => {
    const used = `operator ${name} (${count} ${count === 1 ? "node" : "nodes"})`;
    if (version === undefined)
      return {
        problem: `${used} is of a domain of which the model names no version`,
        remedy: "Add the domain to the model's opset_import.",
      };
    const isStandard = domainOf(node) === "";
    return {
      problem: isStandard
        ? `${used} is not in version ${version} of ONNX's operators`
        : `${used} is neither ONNX's nor ONNX Runtime's`,
      remedy: isStandard
        ? "Export the model with another opset version, or convert it with onnx.version_converter in Python."
        : "Export the model with ONNX's own operators only: a custom operator's code cannot be deployed.",
    };
  });
}

const listNodes = ({ graph }: Model): NodeProto[] =>
  [...traverseGraphs(graph)].flatMap(({ node }) => node);
const qualifiedOpType = (node: NodeProto): string =>
  domainOf(node) === "" ? node.opType : `${node.domain}.${node.opType}`;

/** Weights with numbers that are not finite, each as a sentence. */
export function findNonFiniteWeights(model: Model): string[] {
  const notes: string[] = [];
  for (const graph of traverseGraphs(model.graph)) {
    for (const tensor of tensorsOfGraph(graph)) {
      const values = toTensor(tensor);
      const numbers =
        values?.datatype === "FP32" || values?.datatype === "FP64"
          ? values.data
          : values?.datatype === "FP16"
            ? decodeFloat16(values.data)
            : undefined;
      if (numbers === undefined) continue;
      let [notNumbers, infinite] = [0, 0];
      for (const value of numbers) {
        if (Number.isNaN(value)) notNumbers++;
        else if (!Number.isFinite(value)) infinite++;
      }
      // Masks hold infinities on purpose; nothing holds NaN on purpose.
      if (notNumbers > 0)
        notes.push(`${JSON.stringify(tensor.name)} holds ${notNumbers} numbers that are NaN`);
      if (infinite > 0)
        notes.push(`${JSON.stringify(tensor.name)} holds ${infinite} numbers that are infinite`);
    }
  }
  return notes;
}

/** Of the graph, as a manifest says it. */
export function detectPrecision(model: Model): "fp32" | "fp16" | "int8" {
  const isQuantised = (node: NodeProto) =>
    isOnnxOp(
      node,
      "DequantizeLinear",
      "QLinearConv",
      "QLinearMatMul",
      "MatMulInteger",
      "ConvInteger",
    ) ||
    (node.domain === "com.microsoft" &&
      /^(?:QLinear|QAttention|QGemm|DynamicQuantize|MatMulInteger|DequantizeLinear)/.test(
        node.opType,
      ));
  if (listNodes(model).some(isQuantised)) return "int8";
  let [halves, floats] = [0, 0];
  for (const graph of traverseGraphs(model.graph)) {
    for (const tensor of tensorsOfGraph(graph)) {
      if (tensor.dataType === toDataType("float16"))
        halves += tensor.rawData.length + 2 * tensor.int32Data.length;
      if (tensor.dataType === toDataType("float"))
        floats += tensor.rawData.length + 4 * tensor.floatData.length;
    }
  }
  return halves > floats ? "fp16" : "fp32";
}
