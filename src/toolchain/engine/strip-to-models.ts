// Cuts the full engine to what the deployment's graphs enter, and believes the result only when it has given the full
// engine's bytes, in workerd, on inputs that it was not profiled with.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { reasonOf } from "../../core/errors.ts";
import type { StrippedFunction } from "../../runtime/wasm/traps.ts";
import type { DeploymentConfig } from "../deployment-config.ts";
import { stripToBudget, type StrippedEngine } from "./strip-to-budget.ts";
import type { EngineReport, KeptFunctionReport } from "./engine-report.ts";
import { createValidationInputs } from "./synthetic-inputs.ts";
import type { EdgeGraph, GraphSnapshot } from "./graph-snapshots.ts";
import { parseWasmModule, type WasmModule } from "./wasm-module.ts";
import { openSandbox } from "./sandbox/sandbox.ts";

/** Validations, each with what the one before it missed. */
const MAX_VALIDATION_ROUNDS = 4;

/** A graph of which there is a snapshot. */
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
  /** Of the full engine. */
  readonly engineFolder: string;
  /** SHA-256 of the full engine. */
  readonly fullEngineSha256: string;
  readonly log: (line: string) => void;
}

/** @throws component_failed where workerd cannot be run */
export async function stripToModels(
  usable: readonly SnapshottedGraph[],
  options: StripToModelsOptions,
): Promise<StripOutcome> {
  const [first] = usable;
  if (first === undefined) return { kind: "full", reason: "no edge tier has a snapshot" };
  const { globals, startExports } = first.snapshot.profile;
  if (usable.some(({ snapshot }) => String(snapshot.profile.globals) !== String(globals)))
    return { kind: "full", reason: "the snapshots need different globals" };

  const { config, engineFolder, log } = options;
  const module = parseWasmModule(await readFile(join(engineFolder, "engine.wasm")));
  const why = collectKeepReasons(module, usable, options);
  for (let round = 1; ; round++) {
    log(`cutting the engine to ${why.size} functions that were entered`);
    const engine = stripToBudget(
      module,
      new Set(why.keys()),
      { emptiedExports: startExports, globalValues: globals },
      config.engineGzipBytes,
    );
    log(`validating it in workerd: ${Math.round(engine.gzipBytes / 1000)} kB gzip`);
    const result = await validateEngine(engine, usable, options);
    if ("reason" in result) return { kind: "full", reason: result.reason };
    const { validation, missingFunctions: missed } = result;
    const failed = validation.filter(({ different }) => different > 0);
    if (failed.length === 0)
      return {
        kind: "stripped",
        engine,
        functions: describeFunctions(module, engine, why),
        validation,
      };
    if (missed.length === 0 || round === MAX_VALIDATION_ROUNDS)
      return {
        kind: "full",
        reason: `the cut engine did not pass its tests: ${failed.map(({ graph, different, inputs }) => `${different} of ${inputs} inputs of ${graph}`).join(", ")}`,
      };
    for (const one of missed) addKeepReason(module, why, one, "validation", log);
  }
}

/** Numbers of the functions that must be kept, and the reason. */
function collectKeepReasons(
  module: WasmModule,
  usable: readonly SnapshottedGraph[],
  { config, trappedFunctions: trapped = [], log }: StripToModelsOptions,
): Map<number, string> {
  const why = new Map<number, string>();
  for (const { graph, snapshot } of usable) {
    for (const index of snapshot.profile.entered)
      why.set(index, [why.get(index), `${graph.model}/${graph.tier}`].filter(Boolean).join(" "));
  }
  for (const index of config.keepFunctions)
    addKeepReason(module, why, { function: index }, "configuration", log);
  for (const one of trapped) addKeepReason(module, why, one, "trap log", log);
  return why;
}

function addKeepReason(
  module: WasmModule,
  why: Map<number, string>,
  cut: StrippedFunction,
  reason: string,
  log: (line: string) => void,
): void {
  const index = "slot" in cut ? module.tableSlots[cut.slot] : cut.function;
  const known =
    index !== undefined &&
    module.functionBodies[index - module.importedFunctionCount] !== undefined;
  if (!known) log(`${JSON.stringify(cut)} (${reason}) is no function of this engine`);
  else if (!why.has(index)) why.set(index, reason);
}

type ValidationResult =
  | {
      readonly validation: readonly GraphValidation[];
      readonly missingFunctions: readonly StrippedFunction[];
    }
  | { readonly reason: string };

async function validateEngine(
  engine: StrippedEngine,
  usable: readonly SnapshottedGraph[],
  { engineFolder, fullEngineSha256: source }: StripToModelsOptions,
): Promise<ValidationResult> {
  const sandbox = await openSandbox({
    engineFolder,
    fullEngineSha256: source,
    derivedEngine: engine.wasm,
  });
  const validation: GraphValidation[] = [];
  const missed: StrippedFunction[] = [];
  try {
    for (const { graph, snapshot } of usable) {
      const {
        inputCount: inputs,
        differentCount: different,
        missingFunctions: cut,
      } = await sandbox.validate(
        snapshot.uncompressed,
        graph.bytes,
        graph.sha256,
        createValidationInputs(graph.inputs),
      );
      validation.push({ graph: `${graph.model}/${graph.tier}`, inputs, different });
      missed.push(...cut);
    }
    return { validation, missingFunctions: missed };
  } catch (error) {
    return { reason: `the cut engine does not start: ${reasonOf(error)}` };
  } finally {
    await sandbox.close();
  }
}

function describeFunctions(
  module: WasmModule,
  { keepFunctions: kept }: StrippedEngine,
  why: ReadonlyMap<number, string>,
): KeptFunctionReport[] {
  return [...kept]
    .toSorted((a, b) => a - b)
    .map((number) => ({
      number,
      bytes: module.functionBodies[number - module.importedFunctionCount]?.byteLength ?? 0,
      why: why.get(number) ?? "called by one that is kept",
    }));
}
