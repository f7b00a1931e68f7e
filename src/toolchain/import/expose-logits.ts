// Makes what a classifier gives the output that EdgeTier reads: `logits`, FP32 [batch, labels].

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
 * Changes the model: the output gets the name, and a Softmax before it is taken off, since calibration is of logits.
 * @param wanted the output's name, where the model has several that might be it
 * @returns what was changed, as sentences; or why it cannot be
 */
export function exposeLogits(model: Model, wanted?: string): readonly string[] | ImportProblem {
  sortTopologically(model);
  const table = buildValueTable(model);
  const chosen = findLogitsOutput(model, table, wanted);
  if ("problem" in chosen) return chosen;
  const notes: string[] = [];
  const scores = softmaxInputOf(chosen, table);
  if (scores !== undefined) {
    notes.push(
      `the Softmax that makes ${JSON.stringify(chosen.name)} is taken off: confidence is calibrated on logits`,
    );
    removeSoftmax(model, chosen, scores);
  }
  const now = buildValueTable(model);
  const logits = now
    .outputsOfGraph(model.graph)
    .find(({ name }) => name === (scores ?? chosen).name);
  if (logits === undefined || logits.name === LOGITS_OUTPUT) return notes;
  notes.push(`output ${JSON.stringify(logits.name)} is now called "${LOGITS_OUTPUT}"`);
  renameValue(model, now, logits, LOGITS_OUTPUT);
  return notes;
}

function findLogitsOutput(
  model: Model,
  table: ValueTable,
  wanted: string | undefined,
): Value | ImportProblem {
  const rankOf = inferRanks(model, table);
  const outputs = table.outputsOfGraph(model.graph);
  const listed = (values: readonly Value[]) => values.map(({ name }) => name).join(", ");
  const candidates = outputs.filter(
    (value) => value.type === "float" && (rankOf(value) ?? 2) === 2,
  );
  const named = candidates.find(({ name }) => name === (wanted ?? LOGITS_OUTPUT));
  if (named !== undefined) return named;
  if (wanted !== undefined)
    return {
      problem: `${JSON.stringify(wanted)} is no output of it that is FP32 of two dimensions; it has ${listed(outputs)}`,
      remedy: "Name one with --logits.",
    };
  // Where probabilities are given beside what they are made of, that is it.
  const sources = candidates.filter((value) =>
    candidates.some((other) => softmaxInputOf(other, table) === value),
  );
  const [only, ...others] = sources.length === 1 ? sources : candidates;
  if (only === undefined)
    return {
      problem: `none of its outputs is FP32 [batch, labels]; it has ${listed(outputs)}`,
      remedy: "Export it so that it gives a logit for each label, or import it with --task tensor.",
    };
  return others.length === 0
    ? only
    : {
        problem: `several of its outputs may be the logits: ${listed(candidates)}`,
        remedy: "Say which one with --logits.",
      };
}

/** What a Softmax over the labels makes the value of. */
function softmaxInputOf(value: Value, table: ValueTable): Value | undefined {
  const softmax = producerOf(value, "Softmax");
  return softmax !== undefined && [1, -1].includes(readIntAttribute(softmax, "axis", -1))
    ? table.inputsOf(softmax)[0]
    : undefined;
}

function removeSoftmax(model: Model, probabilities: Value, scores: Value): void {
  for (const use of probabilities.uses) if (use.kind === "output") redirectUse(use, scores.name);
  const { graph } = model;
  graph.valueInfo = graph.valueInfo.filter(({ name }) => name !== scores.name); // it is declared as an output now
  if (
    probabilities.uses.some(({ kind }) => kind === "node") ||
    probabilities.origin.kind !== "node"
  )
    return;
  const changes = new NodeChanges();
  changes.remove(probabilities.origin.node);
  changes.apply(model);
}
