// Makes what a classifier gives the output that EdgeTier reads: `logits`, FP32 [batch, labels].

import { LOGITS } from "../../cascade/calibration.ts";
import { NodeChanges, redirect } from "../onnx/edit.ts";
import { intOf, makerOf } from "../onnx/find.ts";
import type { Model } from "../onnx/model-file.ts";
import { ranksOf } from "../onnx/ranks.ts";
import { renameValue } from "../onnx/rename.ts";
import { sortNodes } from "../onnx/sort.ts";
import { type Value, type ValueTable, valuesOf } from "../onnx/values.ts";
import type { Problem } from "./problem.ts";

/**
 * Changes the model: the output gets the name, and a Softmax before it is taken off, since calibration is of logits.
 * @param wanted the output's name, where the model has several that might be it
 * @returns what was changed, as sentences; or why it cannot be
 */
export function nameLogits(model: Model, wanted?: string): readonly string[] | Problem {
  sortNodes(model);
  const table = valuesOf(model);
  const chosen = chooseOutput(model, table, wanted);
  if ("problem" in chosen) return chosen;
  const notes: string[] = [];
  const scores = scoresOf(chosen, table);
  if (scores !== undefined) {
    notes.push(
      `the Softmax that makes ${JSON.stringify(chosen.name)} is taken off: confidence is calibrated on logits`,
    );
    takeOff(model, chosen, scores);
  }
  const now = valuesOf(model);
  const logits = now
    .outputsOfGraph(model.graph)
    .find(({ name }) => name === (scores ?? chosen).name);
  if (logits === undefined || logits.name === LOGITS) return notes;
  notes.push(`output ${JSON.stringify(logits.name)} is now called "${LOGITS}"`);
  renameValue(model, now, logits, LOGITS);
  return notes;
}

function chooseOutput(
  model: Model,
  table: ValueTable,
  wanted: string | undefined,
): Value | Problem {
  const rankOf = ranksOf(model, table);
  const outputs = table.outputsOfGraph(model.graph);
  const listed = (values: readonly Value[]) => values.map(({ name }) => name).join(", ");
  const candidates = outputs.filter(
    (value) => value.type === "float" && (rankOf(value) ?? 2) === 2,
  );
  const named = candidates.find(({ name }) => name === (wanted ?? LOGITS));
  if (named !== undefined) return named;
  if (wanted !== undefined)
    return {
      problem: `${JSON.stringify(wanted)} is no output of it that is FP32 of two dimensions; it has ${listed(outputs)}`,
      remedy: "Name one with --logits.",
    };
  // Where probabilities are given beside what they are made of, that is it.
  const sources = candidates.filter((value) =>
    candidates.some((other) => scoresOf(other, table) === value),
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
function scoresOf(value: Value, table: ValueTable): Value | undefined {
  const softmax = makerOf(value, "Softmax");
  return softmax !== undefined && [1, -1].includes(intOf(softmax, "axis", -1))
    ? table.inputsOf(softmax)[0]
    : undefined;
}

function takeOff(model: Model, probabilities: Value, scores: Value): void {
  for (const use of probabilities.uses) if (use.kind === "output") redirect(use, scores.name);
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
