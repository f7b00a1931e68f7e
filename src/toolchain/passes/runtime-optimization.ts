// Applies ONNX Runtime's own graph optimization once and stores the result, instead of repeating it
// in each session.
//
// `basic` keeps to ONNX's operators and folds constants. `extended` fuses nodes into ONNX Runtime's
// own operators (domain com.microsoft). The edge's engine supports these too, but other runtimes do
// not. `all` lays tensors out for the processor that it runs on (com.microsoft.nchwc). Its result
// suits similar machines only, and never the edge.
// https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InferenceSession } from "onnxruntime-node";
import { coreErrors } from "../../core/common-errors.ts";
import { reasonOf } from "../../core/errors.ts";
import { toOrtOptions } from "../../runtime/native/session-options.ts";
import { traverseGraphs } from "../onnx/graph-traversal.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { domainOf } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";

export const GRAPH_OPTIMIZATION_LEVELS = ["basic", "extended", "all"] as const;
export type GraphOptimizationLevel = (typeof GRAPH_OPTIMIZATION_LEVELS)[number];

/** Changes the model. @returns the number of removed nodes @throws session_failed */
export async function optimizeWithRuntime(
  model: Model,
  level: GraphOptimizationLevel,
): Promise<number> {
  const before = countNodes(model);
  const optimized = parseModel(await optimizeBytes(serializeModel(model), level, "onnx"));
  const { graph, functions, irVersion } = optimized;
  const used = new Set(
    [...traverseNodes(optimized), ...functions.flatMap(({ node }) => node)].map(domainOf),
  );
  // ONNX Runtime declares every domain that it knows.
  const opsetImport = optimized.opsetImport.filter(
    (entry) => domainOf(entry) === "" || used.has(domainOf(entry)),
  );
  Object.assign(model, { graph, functions, irVersion, opsetImport });
  return Math.max(0, before - countNodes(model));
}

/**
 * @param format ONNX Runtime derives the output format from this file extension
 * @throws session_failed
 */
export async function optimizeBytes(
  bytes: Uint8Array,
  level: GraphOptimizationLevel,
  format: "onnx" | "ort",
): Promise<Uint8Array> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-optimize-"));
  const path = join(folder, `optimized.${format}`);
  try {
    const session = await InferenceSession.create(bytes, {
      ...toOrtOptions({ graphOptimization: level }),
      optimizedModelFilePath: path,
    });
    await session.release();
    return new Uint8Array(await readFile(path));
  } catch (error) {
    throw coreErrors.sessionFailed(reasonOf(error), error);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export function* traverseNodes(model: Model): Generator<NodeProto> {
  for (const { node } of traverseGraphs(model.graph)) yield* node;
}

export const countNodes = (model: Model): number => [...traverseNodes(model)].length;

/** Counts the nodes of each operator outside the ONNX standard, as `domain.operator`. */
export function countNonStandardOperators(model: Model): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const node of traverseNodes(model)) {
    const domain = domainOf(node);
    if (domain !== "" && domain !== "ai.onnx.ml")
      counts.set(`${domain}.${node.opType}`, (counts.get(`${domain}.${node.opType}`) ?? 0) + 1);
  }
  return counts;
}
