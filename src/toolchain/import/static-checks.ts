// Checks a model without running it: its operators must be known, and its weights finite.

import { decodeFloat16 } from "../fp16/float16.ts";
import { traverseGraphs, tensorsOfGraph } from "../onnx/graph-traversal.ts";
import type { Model } from "../onnx/model-file.ts";
import { domainOf, isOnnxOp } from "../onnx/nodes.ts";
import { opsetsOf, findSignature } from "../onnx/operators/signatures.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { toTensor } from "../onnx/tensor-conversion.ts";
import { toDataType } from "../onnx/tensor-data.ts";
import type { ImportProblem } from "./import-problem.ts";

/**
 * Finds operators that the specifications of ONNX and ONNX Runtime lack in the model's version, and
 * that are not the model's own functions.
 */
export function findOperatorProblems(model: Model): ImportProblem[] {
  const functions = new Set(model.functions.map(({ domain, name }) => `${domain}.${name}`));
  const bodies = [
    { opsets: opsetsOf(model), nodes: listNodes(model) },
    ...model.functions.map((body) => ({ opsets: opsetsOf(body), nodes: body.node })),
  ];
  const unknownOperators = new Map<
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
      unknownOperators.set(qualifiedOpType(node), {
        count: (unknownOperators.get(qualifiedOpType(node))?.count ?? 0) + 1,
        node,
        version: opsets.get(domainOf(node)),
      });
    }
  }
  return [...unknownOperators].map(([name, { count, node, version }]) => {
    const subject = `operator ${name} (${count} ${count === 1 ? "node" : "nodes"})`;
    if (version === undefined)
      return {
        problem: `${subject} belongs to a domain without a version in the model`,
        remedy: "Add the domain to the model's opset_import.",
      };
    const isStandard = domainOf(node) === "";
    return {
      problem: isStandard
        ? `${subject} is not part of version ${version} of ONNX's operators`
        : `${subject} is an operator of neither ONNX nor ONNX Runtime`,
      remedy: isStandard
        ? "Export the model with another opset version, or convert it with onnx.version_converter in Python."
        : "Export the model with ONNX's standard operators only, because custom operators cannot be deployed.",
    };
  });
}

const listNodes = ({ graph }: Model): NodeProto[] =>
  [...traverseGraphs(graph)].flatMap(({ node }) => node);
const qualifiedOpType = (node: NodeProto): string =>
  domainOf(node) === "" ? node.opType : `${node.domain}.${node.opType}`;

/** Describes weights with non-finite values, one sentence per tensor. */
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
      let [nanCount, infiniteCount] = [0, 0];
      for (const value of numbers) {
        if (Number.isNaN(value)) nanCount++;
        else if (!Number.isFinite(value)) infiniteCount++;
      }
      // Masks contain infinities on purpose, but NaN is always an error.
      if (nanCount > 0)
        notes.push(`${JSON.stringify(tensor.name)} contains ${nanCount} NaN values`);
      if (infiniteCount > 0)
        notes.push(`${JSON.stringify(tensor.name)} contains ${infiniteCount} infinite values`);
    }
  }
  return notes;
}

/** Returns the precision of the graph, as the manifest declares it. */
export function detectPrecision(model: Model): "fp32" | "fp16" | "int8" {
  const isQuantized = (node: NodeProto) =>
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
  if (listNodes(model).some(isQuantized)) return "int8";
  let [fp16Bytes, fp32Bytes] = [0, 0];
  for (const graph of traverseGraphs(model.graph)) {
    for (const tensor of tensorsOfGraph(graph)) {
      if (tensor.dataType === toDataType("float16"))
        fp16Bytes += tensor.rawData.length + 2 * tensor.int32Data.length;
      if (tensor.dataType === toDataType("float"))
        fp32Bytes += tensor.rawData.length + 4 * tensor.floatData.length;
    }
  }
  return fp16Bytes > fp32Bytes ? "fp16" : "fp32";
}
