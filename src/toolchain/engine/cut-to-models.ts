// Cuts the full engine to what the deployment's graphs enter, and believes the result only when it has given the full
// engine's bytes, in workerd, on inputs that it was not profiled with.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { reasonOf } from "../../core/errors.ts";
import type { CutFunction } from "../../runtime/wasm/traps.ts";
import type { DeploymentConfig } from "../deployment-config.ts";
import { cutToFit, type FittedEngine } from "./fit.ts";
import type { EngineReport, ReportedFunction } from "./report.ts";
import { validationInputs } from "./sample-inputs.ts";
import type { EdgeGraph, GraphSnapshot } from "./snapshots.ts";
import { parseModule, type WasmModule } from "./wasm-module.ts";
import { openWorkshop } from "./workshop/workshop.ts";

/** Validations, each with what the one before it missed. */
const MAX_ROUNDS = 4;

/** A graph of which there is a snapshot. */
export interface Usable<Graph extends EdgeGraph = EdgeGraph> {
  readonly graph: Graph;
  readonly snapshot: GraphSnapshot;
}

export type CutOutcome =
  | { readonly kind: "full"; readonly reason: string }
  | {
      readonly kind: "cut";
      readonly engine: FittedEngine;
      readonly functions: readonly ReportedFunction[];
      readonly validation: readonly Validated[];
    };

type Validated = EngineReport["validation"][number];

export interface CutOptions {
  readonly config: DeploymentConfig;
  readonly trapped?: readonly CutFunction[];
  /** Of the full engine. */
  readonly engineFolder: string;
  /** SHA-256 of the full engine. */
  readonly source: string;
  readonly log: (line: string) => void;
}

/** @throws component_failed where workerd cannot be run */
export async function cutToModels(
  usable: readonly Usable[],
  options: CutOptions,
): Promise<CutOutcome> {
  const [first] = usable;
  if (first === undefined) return { kind: "full", reason: "no edge tier has a snapshot" };
  const { globals, startExports } = first.snapshot.profile;
  if (usable.some(({ snapshot }) => String(snapshot.profile.globals) !== String(globals)))
    return { kind: "full", reason: "the snapshots need different globals" };

  const { config, engineFolder, log } = options;
  const module = parseModule(await readFile(join(engineFolder, "engine.wasm")));
  const why = whyKept(module, usable, options);
  for (let round = 1; ; round++) {
    log(`cutting the engine to ${why.size} functions that were entered`);
    const engine = cutToFit(
      module,
      new Set(why.keys()),
      { empty: startExports, globals },
      config.engineGzipBytes,
    );
    log(`validating it in workerd: ${Math.round(engine.gzipBytes / 1000)} kB gzip`);
    const result = await validated(engine, usable, options);
    if ("reason" in result) return { kind: "full", reason: result.reason };
    const { validation, missed } = result;
    const failed = validation.filter(({ different }) => different > 0);
    if (failed.length === 0)
      return { kind: "cut", engine, functions: reported(module, engine, why), validation };
    if (missed.length === 0 || round === MAX_ROUNDS)
      return {
        kind: "full",
        reason: `the cut engine did not pass its tests: ${failed.map(({ graph, different, inputs }) => `${different} of ${inputs} inputs of ${graph}`).join(", ")}`,
      };
    for (const one of missed) keep(module, why, one, "validation", log);
  }
}

/** Numbers of the functions that must be kept, and the reason. */
function whyKept(
  module: WasmModule,
  usable: readonly Usable[],
  { config, trapped = [], log }: CutOptions,
): Map<number, string> {
  const why = new Map<number, string>();
  for (const { graph, snapshot } of usable) {
    for (const index of snapshot.profile.entered)
      why.set(index, [why.get(index), `${graph.model}/${graph.tier}`].filter(Boolean).join(" "));
  }
  for (const index of config.keepFunctions)
    keep(module, why, { function: index }, "configuration", log);
  for (const one of trapped) keep(module, why, one, "trap log", log);
  return why;
}

function keep(
  module: WasmModule,
  why: Map<number, string>,
  cut: CutFunction,
  reason: string,
  log: (line: string) => void,
): void {
  const index = "slot" in cut ? module.slots[cut.slot] : cut.function;
  const known =
    index !== undefined && module.bodies[index - module.importedFunctions] !== undefined;
  if (!known) log(`${JSON.stringify(cut)} (${reason}) is no function of this engine`);
  else if (!why.has(index)) why.set(index, reason);
}

type ValidationResult =
  | { readonly validation: readonly Validated[]; readonly missed: readonly CutFunction[] }
  | { readonly reason: string };

async function validated(
  engine: FittedEngine,
  usable: readonly Usable[],
  { engineFolder, source }: CutOptions,
): Promise<ValidationResult> {
  const workshop = await openWorkshop({ engineFolder, source, other: engine.wasm });
  const validation: Validated[] = [];
  const missed: CutFunction[] = [];
  try {
    for (const { graph, snapshot } of usable) {
      const { inputs, different, cut } = await workshop.validate(
        snapshot.plain,
        graph.bytes,
        graph.sha256,
        validationInputs(graph.inputs),
      );
      validation.push({ graph: `${graph.model}/${graph.tier}`, inputs, different });
      missed.push(...cut);
    }
    return { validation, missed };
  } catch (error) {
    return { reason: `the cut engine does not start: ${reasonOf(error)}` };
  } finally {
    await workshop.close();
  }
}

function reported(
  module: WasmModule,
  { keep: kept }: FittedEngine,
  why: ReadonlyMap<number, string>,
): ReportedFunction[] {
  return [...kept]
    .toSorted((a, b) => a - b)
    .map((number) => ({
      number,
      bytes: module.bodies[number - module.importedFunctions]?.byteLength ?? 0,
      why: why.get(number) ?? "called by one that is kept",
    }));
}
