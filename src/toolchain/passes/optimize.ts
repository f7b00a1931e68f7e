// Runs passes on a model and reports the effect of each.

import { toolchainErrors } from "../errors.ts";
import { type Model, serializeModel } from "../onnx/model-file.ts";
import type { Pass, PassContext } from "./pass.ts";
import { GRAPH_PASSES, RUNTIME_PASSES } from "./passes.ts";
import { countNodes, countNonStandardOperators } from "./runtime-optimization.ts";

export interface OptimizeOptions extends PassContext {
  /** Names of passes; all of `GRAPH_PASSES` by default. */
  readonly passes?: readonly string[];
  readonly onProgress?: (event: { readonly pass: string; readonly round: number }) => void;
}

export interface OptimizeReport {
  readonly before: GraphSize;
  readonly after: GraphSize;
  /** In the order of first execution, including passes without changes. */
  readonly passes: readonly PassReport[];
  /** Counts of operators outside the ONNX standard, which other runtimes may not support. */
  readonly foreignOperators: Readonly<Record<string, number>>;
}

export interface GraphSize {
  readonly nodes: number;
  /** Size of the serialized file. */
  readonly bytes: number;
}

export interface PassReport {
  readonly pass: string;
  readonly changes: number;
  /** Difference in nodes; negative if nodes were removed. */
  readonly nodes: number;
  readonly bytes: number;
}

/** Each pass can enable others. No model is known to change after this many rounds. */
const MAX_ROUNDS = 8;

/**
 * Changes the model. The result is deterministic for a model and its passes.
 * @throws unknown_pass, session_failed, invalid_model_file
 */
export async function optimize(
  model: Model,
  {
    passes = GRAPH_PASSES.map(({ name }) => name),
    runtime,
    onProgress = () => {},
  }: OptimizeOptions,
): Promise<OptimizeReport> {
  const chosen = [...new Set(passes)].map(findPass);
  const before = measureGraph(model);
  const reports = new Map<Pass, PassReport>(
    chosen.map((pass) => [pass, { pass: pass.name, changes: 0, nodes: 0, bytes: 0 }]),
  );
  let size = before;

  async function runPass(pass: Pass, round: number): Promise<number> {
    onProgress({ pass: pass.name, round });
    const changes = await pass.run(model, { runtime });
    const report = reports.get(pass);
    if (changes === 0 && !RUNTIME_PASSES.includes(pass)) return 0;
    const now = measureGraph(model);
    if (report !== undefined)
      reports.set(pass, {
        pass: pass.name,
        changes: report.changes + changes,
        nodes: report.nodes + now.nodes - size.nodes,
        bytes: report.bytes + now.bytes - size.bytes,
      });
    size = now;
    return changes;
  }

  const graphPasses = chosen.filter((pass) => !RUNTIME_PASSES.includes(pass));
  for (let round = 1; round <= MAX_ROUNDS; round++) {
    let changes = 0;
    for (const pass of graphPasses) changes += await runPass(pass, round);
    if (changes === 0) break;
  }
  for (const pass of chosen) if (RUNTIME_PASSES.includes(pass)) await runPass(pass, 1);
  return {
    before,
    after: size,
    passes: [...reports.values()],
    foreignOperators: Object.fromEntries(countNonStandardOperators(model)),
  };
}

function findPass(name: string): Pass {
  const all = [...GRAPH_PASSES, ...RUNTIME_PASSES];
  const pass = all.find((candidate) => candidate.name === name);
  if (pass === undefined)
    throw toolchainErrors.unknownPass(
      name,
      all.map((candidate) => candidate.name),
    );
  return pass;
}

const measureGraph = (model: Model): GraphSize => ({
  nodes: countNodes(model),
  bytes: serializeModel(model).byteLength,
});
