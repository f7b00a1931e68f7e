// Exposes a classifier's scores as the output that EdgeTier reads: `logits`, FP32 [batch, labels].

import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { NodeChanges, redirectUse } from "../onnx/graph-edits.ts";
import { readIntAttribute, producerOf } from "../onnx/graph-queries.ts";
import type { Model } from "../onnx/model-file.ts";
import { inferRanks } from "../onnx/rank-inference.ts";
import { renameValue } from "../onnx/rename-value.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import { type Value, type ValueTable, buildValueTable } from "../onnx/value-table.ts";
import type { ImportProblem } from "./import-problem.ts";

/**
 * Changes the model: the output is renamed, and a Softmax before it is removed, because calibration
 * applies to logits.
 * @param outputName name of the output, if several are candidates
 * @returns the changes as sentences, or the problem
 */
export function exposeLogits(model: Model, outputName?: string): readonly string[] | ImportProblem {
  sortTopologically(model);
  const table = buildValueTable(model);
  const chosen = findLogitsOutput(model, table, outputName);
  if ("problem" in chosen) return chosen;
  const notes: string[] = [];
  const softmaxInput = softmaxInputOf(chosen, table);
  if (softmaxInput !== undefined) {
    notes.push(
      `the Softmax that produces ${JSON.stringify(chosen.name)} is removed, because confidence is calibrated on logits`,
    );
    removeSoftmax(model, chosen, softmaxInput);
  }
  const updatedTable = buildValueTable(model);
  const logits = updatedTable
    .outputsOfGraph(model.graph)
    .find(({ name }) => name === (softmaxInput ?? chosen).name);
  if (logits === undefined || logits.name === LOGITS_OUTPUT) return notes;
  notes.push(`output ${JSON.stringify(logits.name)} is renamed to "${LOGITS_OUTPUT}"`);
  renameValue(model, updatedTable, logits, LOGITS_OUTPUT);
  return notes;
}

function findLogitsOutput(
  model: Model,
  table: ValueTable,
  outputName: string | undefined,
): Value | ImportProblem {
  const rankOf = inferRanks(model, table);
  const outputs = table.outputsOfGraph(model.graph);
  const listNames = (values: readonly Value[]) => values.map(({ name }) => name).join(", ");
  const candidates = outputs.filter(
    (value) => value.type === "float" && (rankOf(value) ?? 2) === 2,
  );
  const exactMatch = candidates.find(({ name }) => name === (outputName ?? LOGITS_OUTPUT));
  if (exactMatch !== undefined) return exactMatch;
  if (outputName !== undefined)
    return {
      problem: `${JSON.stringify(outputName)} is not one of its FP32 outputs with two dimensions; it has ${listNames(outputs)}`,
      remedy: "Give another output with --logits.",
    };
  // If the model also returns the input of its Softmax, that output has the logits.
  const sources = candidates.filter((value) =>
    candidates.some((other) => softmaxInputOf(other, table) === value),
  );
  const [only, ...others] = sources.length === 1 ? sources : candidates;
  if (only === undefined)
    return {
      problem: `it has no FP32 output [batch, labels], only ${listNames(outputs)}`,
      remedy: "Export it with one logit per label as an output, or import it with --task tensor.",
    };
  return others.length === 0
    ? only
    : {
        problem: `several of its outputs could be the logits: ${listNames(candidates)}`,
        remedy: "Give the output with --logits.",
      };
}

/** Returns the input of the Softmax over the labels that produces the value. */
function softmaxInputOf(value: Value, table: ValueTable): Value | undefined {
  const softmax = producerOf(value, "Softmax");
  return softmax !== undefined && [1, -1].includes(readIntAttribute(softmax, "axis", -1))
    ? table.inputsOf(softmax)[0]
    : undefined;
}

function removeSoftmax(model: Model, probabilities: Value, scores: Value): void {
  for (const use of probabilities.uses) if (use.kind === "output") redirectUse(use, scores.name);
  const { graph } = model;
  // The value is now declared as an output.
  graph.valueInfo = graph.valueInfo.filter(({ name }) => name !== scores.name);
  if (
    probabilities.uses.some(({ kind }) => kind === "node") ||
    probabilities.origin.kind !== "node"
  )
    return;
  const changes = new NodeChanges();
  changes.remove(probabilities.origin.node);
  changes.apply(model);
}
