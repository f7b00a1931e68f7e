// Strips the full engine to the functions that the deployment's graphs enter, and validates the result in workerd. It must
// return the full engine's bytes for inputs that it was not profiled with.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { reasonOf } from "../../core/errors.ts";
import type { StrippedFunction } from "../../runtime/wasm/traps.ts";
import type { DeploymentConfig } from "../deployment-config.ts";
import type { EngineReport, KeptFunctionReport } from "./engine-report.ts";
import type { EdgeGraph, GraphSnapshot } from "./graph-snapshots.ts";
import { openSandbox } from "./sandbox/sandbox.ts";
import { stripToBudget, type StrippedEngine } from "./strip-to-budget.ts";
import { createValidationInputs } from "./synthetic-inputs.ts";
import { parseWasmModule, type WasmModule } from "./wasm-module.ts";

/** Each round keeps, in addition, the functions that the previous one missed. */
const MAX_VALIDATION_ROUNDS = 4;

export interface SnapshottedGraph<Graph extends EdgeGraph = EdgeGraph> {
  readonly graph: Graph;
  readonly snapshot: GraphSnapshot;
}

export type StripOutcome =
  | { readonly kind: "full"; readonly reason: string }
  | {
      readonly kind: "stripped";
      readonly engine: StrippedEngine;
      readonly functions: readonly KeptFunctionReport[];
      readonly validation: readonly GraphValidation[];
    };

type GraphValidation = EngineReport["validation"][number];

export interface StripToModelsOptions {
  readonly config: DeploymentConfig;
  readonly trappedFunctions?: readonly StrippedFunction[];
  /** Folder of the full engine. */
  readonly engineFolder: string;
  readonly fullEngineSha256: string;
  readonly log: (line: string) => void;
}

/** @throws component_failed if workerd cannot be started */
export async function stripToModels(
  snapshotted: readonly SnapshottedGraph[],
  options: StripToModelsOptions,
): Promise<StripOutcome> {
  const [first] = snapshotted;
  if (first === undefined) return { kind: "full", reason: "no edge tier has a snapshot" };
  const { globals, startExports } = first.snapshot.profile;
  if (snapshotted.some(({ snapshot }) => String(snapshot.profile.globals) !== String(globals)))
    return { kind: "full", reason: "the snapshots need different globals" };

  const { config, engineFolder, log } = options;
  const module = parseWasmModule(await readFile(join(engineFolder, "engine.wasm")));
  const keepReasons = collectKeepReasons(module, snapshotted, options);
  for (let round = 1; ; round++) {
    log(`stripping the engine to ${keepReasons.size} functions that were entered`);
    const engine = stripToBudget(
      module,
      new Set(keepReasons.keys()),
      { emptiedExports: startExports, globalValues: globals },
      config.engineGzipBytes,
    );
    log(
      `validating the stripped engine in workerd: ${Math.round(engine.gzipBytes / 1000)} kB gzip`,
    );
    const result = await validateEngine(engine, snapshotted, options);
    if ("reason" in result) return { kind: "full", reason: result.reason };
    const { validation, missingFunctions } = result;
    const failed = validation.filter(({ different }) => different > 0);
    if (failed.length === 0)
      return {
        kind: "stripped",
        engine,
        functions: describeFunctions(module, engine, keepReasons),
        validation,
      };
    if (missingFunctions.length === 0 || round === MAX_VALIDATION_ROUNDS)
      return { kind: "full", reason: describeFailures(failed) };
    for (const missing of missingFunctions)
      addKeepReason(module, keepReasons, missing, "validation", log);
  }
}

const describeFailures = (failed: readonly GraphValidation[]): string =>
  `the stripped engine failed its validation: ${failed.map(({ graph, different, inputs }) => `${different} of ${inputs} inputs of ${graph}`).join(", ")}`;

/** Reasons for keeping a function, by its index in the full engine. */
type KeepReasons = Map<number, string>;

function collectKeepReasons(
  module: WasmModule,
  snapshotted: readonly SnapshottedGraph[],
  { config, trappedFunctions = [], log }: StripToModelsOptions,
): KeepReasons {
  const reasons: KeepReasons = new Map();
  for (const { graph, snapshot } of snapshotted) {
    for (const index of snapshot.profile.entered)
      reasons.set(
        index,
        [reasons.get(index), `${graph.model}/${graph.tier}`].filter(Boolean).join(" "),
      );
  }
  for (const index of config.keepFunctions)
    addKeepReason(module, reasons, { function: index }, "configuration", log);
  for (const trapped of trappedFunctions) addKeepReason(module, reasons, trapped, "trap log", log);
  return reasons;
}

function addKeepReason(
  module: WasmModule,
  reasons: KeepReasons,
  stripped: StrippedFunction,
  reason: string,
  log: (line: string) => void,
): void {
  const index = "slot" in stripped ? module.tableSlots[stripped.slot] : stripped.function;
  const exists =
    index !== undefined &&
    module.functionBodies[index - module.importedFunctionCount] !== undefined;
  if (!exists) log(`${JSON.stringify(stripped)} (${reason}) is not a function of this engine`);
  else if (!reasons.has(index)) reasons.set(index, reason);
}

type ValidationResult =
  | {
      readonly validation: readonly GraphValidation[];
      readonly missingFunctions: readonly StrippedFunction[];
    }
  | { readonly reason: string };

async function validateEngine(
  engine: StrippedEngine,
  snapshotted: readonly SnapshottedGraph[],
  { engineFolder, fullEngineSha256 }: StripToModelsOptions,
): Promise<ValidationResult> {
  const sandbox = await openSandbox({
    engineFolder,
    fullEngineSha256,
    derivedEngine: engine.wasm,
  });
  const validation: GraphValidation[] = [];
  const missingFunctions: StrippedFunction[] = [];
  try {
    for (const { graph, snapshot } of snapshotted) {
      const result = await sandbox.validate(
        snapshot.uncompressed,
        graph.bytes,
        graph.sha256,
        createValidationInputs(graph.inputs),
      );
      validation.push({
        graph: `${graph.model}/${graph.tier}`,
        inputs: result.inputCount,
        different: result.differentCount,
      });
      missingFunctions.push(...result.missingFunctions);
    }
    return { validation, missingFunctions };
  } catch (error) {
    return { reason: `the stripped engine does not start: ${reasonOf(error)}` };
  } finally {
    await sandbox.close();
  }
}

function describeFunctions(
  module: WasmModule,
  { keepFunctions }: StrippedEngine,
  keepReasons: KeepReasons,
): KeptFunctionReport[] {
  return [...keepFunctions]
    .toSorted((a, b) => a - b)
    .map((number) => ({
      number,
      bytes: module.functionBodies[number - module.importedFunctionCount]?.byteLength ?? 0,
      why: keepReasons.get(number) ?? "called by a kept function",
    }));
}
