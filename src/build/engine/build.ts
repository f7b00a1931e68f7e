// Makes what the Worker bundles: an engine cut to the deployment's models, validated in workerd, and the snapshots that
// are restored at module scope. The full engine takes the cut one's place until that has passed its tests.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { reasonOf } from "../../core/errors.ts";
import type { CutFunction } from "../../runtime/wasm/traps.ts";
import { encodeFunctions } from "../../runtime/wasm/function-set.ts";
import { PAGE_BYTES } from "../../runtime/wasm/engine.ts";
import type { DeploymentConfig } from "../deployment-config.ts";
import { isWhole, readReport, writeDeployment } from "./deployment-folder.ts";
import { cutToFit, type FittedEngine } from "./fit.ts";
import { prepareEngine } from "./prepare.ts";
import type { EngineReport, ReportedFunction } from "./report.ts";
import { validationInputs } from "./sample-inputs.ts";
import { type EdgeGraph, type GraphSnapshot, makeSnapshots, type NoSnapshot } from "./snapshots.ts";
import { parseModule, type WasmModule } from "./wasm-module.ts";
import { openWorkshop } from "./workshop/workshop.ts";

/** Raise it when the same inputs give another deployment. */
const RECIPE = 4;
/** Validations, each with what the one before it missed. */
const MAX_ROUNDS = 4;

/** A graph of the deployment. */
export interface DeployedGraph extends EdgeGraph {
  /** Its model's first tier: its snapshot is bundled. */
  readonly first: boolean;
  /** Whether its model has a region tier, which can answer in its place. */
  readonly hasRegion: boolean;
}

export interface BuildOptions {
  readonly graphs: readonly DeployedGraph[];
  readonly config: DeploymentConfig;
  /** Small files that the graphs' models need at the edge, by SHA-256. */
  readonly artifacts?: ReadonlyMap<string, Uint8Array>;
  /** More functions to keep, as an isolate's log named them. */
  readonly trapped?: readonly CutFunction[];
  /** Of the full engine. */
  readonly engineFolder: string;
  readonly snapshotsFolder: string;
  /** Of the deployment. */
  readonly outFolder: string;
  readonly log?: (line: string) => void;
}

export interface BuiltDeployment {
  readonly report: EngineReport;
  /** Nothing had to be made. */
  readonly cached: boolean;
}

/** @throws component_failed */
export async function buildDeployment(options: BuildOptions): Promise<BuiltDeployment> {
  const { graphs, config, engineFolder, outFolder, log = () => {} } = options;
  const full = await prepareEngine({ outDir: engineFolder, log });
  const inputs = inputsDigest(options, full.sha256);
  const existing = await readReport(outFolder);
  if (existing?.inputs === inputs && (await isWhole(outFolder, existing))) return { report: existing, cached: true };

  const snapshots = await makeSnapshots(graphs, { engineFolder, engineSha256: full.sha256, cacheFolder: options.snapshotsFolder, log });
  const usable = graphs.flatMap((graph) => {
    const snapshot = snapshots.get(graph.sha256);
    return snapshot === undefined || "reason" in snapshot ? [] : [{ graph, snapshot }];
  });
  const module = parseModule(await readFile(join(engineFolder, "engine.wasm")));
  const outcome = config.engine === "full" ? { kind: "full" as const, reason: "the configuration says so" } : await cutEngine(module, usable, options, full.sha256, log);

  const bundled = chooseBundled(usable, config);
  const withFallback = outcome.kind === "cut" && (config.fallbackEngine === "always" || (config.fallbackEngine === "auto" && graphs.some(({ hasRegion }) => !hasRegion)));
  const report: EngineReport = {
    inputs,
    engine: outcome.kind === "cut" ? engineOf(outcome.engine, full) : { kind: "full", source: full.sha256, sha256: full.sha256, bytes: full.bytes, gzipBytes: full.gzipBytes, reason: outcome.reason },
    full: { sha256: full.sha256, bytes: full.bytes, gzipBytes: full.gzipBytes },
    fallback: withFallback,
    graphs: graphs.map((graph) => reportGraph(graph, snapshots.get(graph.sha256), bundled.some(({ graph: one }) => one.sha256 === graph.sha256))),
    functions: outcome.kind === "cut" ? [...outcome.functions] : [],
    validation: outcome.kind === "cut" ? outcome.validation : [],
  };
  await writeDeployment(outFolder, {
    report,
    cutWasm: outcome.kind === "cut" ? outcome.engine.wasm : undefined,
    bundled: bundled.map(({ graph, snapshot }) => ({ graph: graph.sha256, snapshot: snapshot.plain })),
    artifacts: chooseArtifacts(options),
    warmUpRuns: config.warmUpRuns,
    sessionBudgetBytes: config.sessionBudgetBytes,
    engineFolder,
  });
  return { report, cached: false };
}

type Usable = { readonly graph: DeployedGraph; readonly snapshot: GraphSnapshot };
type CutOutcome =
  | { readonly kind: "full"; readonly reason: string }
  | { readonly kind: "cut"; readonly engine: FittedEngine; readonly functions: readonly ReportedFunction[]; readonly validation: EngineReport["validation"] };

async function cutEngine(module: WasmModule, usable: readonly Usable[], options: BuildOptions, source: string, log: (line: string) => void): Promise<CutOutcome> {
  const [first] = usable;
  if (first === undefined) return { kind: "full", reason: "no edge tier has a snapshot" };
  const { globals, startExports } = first.snapshot.profile;
  if (usable.some(({ snapshot }) => String(snapshot.profile.globals) !== String(globals))) return { kind: "full", reason: "the snapshots need different globals" };

  const why = new Map<number, string>();
  for (const { graph, snapshot } of usable) for (const index of snapshot.profile.entered) why.set(index, [why.get(index), `${graph.model}/${graph.tier}`].filter(Boolean).join(" "));
  const need = (cut: CutFunction, reason: string) => {
    const index = "slot" in cut ? module.slots[cut.slot] : cut.function;
    const known = index !== undefined && module.bodies[index - module.importedFunctions] !== undefined;
    if (!known) log(`${JSON.stringify(cut)} (${reason}) is no function of this engine`);
    else if (!why.has(index)) why.set(index, reason);
  };
  for (const index of options.config.keepFunctions) need({ function: index }, "configuration");
  for (const one of options.trapped ?? []) need(one, "trap log");

  for (let round = 1; ; round++) {
    log(`cutting the engine to ${why.size} functions that were entered`);
    const engine = cutToFit(module, new Set(why.keys()), { empty: startExports, globals }, options.config.engineGzipBytes);
    log(`validating it in workerd: ${Math.round(engine.gzipBytes / 1000)} kB gzip`);
    const validation: { graph: string; inputs: number; different: number }[] = [];
    const missed: CutFunction[] = [];
    const workshop = await openWorkshop({ engineFolder: options.engineFolder, source, other: engine.wasm });
    try {
      for (const { graph, snapshot } of usable) {
        const { inputs, different, cut } = await workshop.validate(snapshot.plain, graph.bytes, graph.sha256, validationInputs(graph.inputs));
        validation.push({ graph: `${graph.model}/${graph.tier}`, inputs, different });
        missed.push(...cut);
      }
    } catch (error) {
      return { kind: "full", reason: `the cut engine does not start: ${reasonOf(error)}` };
    } finally {
      await workshop.close();
    }
    const failed = validation.filter(({ different }) => different > 0);
    if (failed.length === 0) {
      const functions = [...engine.keep].toSorted((a, b) => a - b).map((number) => ({ number, bytes: module.bodies[number - module.importedFunctions]?.byteLength ?? 0, why: why.get(number) ?? "called by one that is kept" }));
      return { kind: "cut", engine, functions, validation };
    }
    if (missed.length === 0 || round === MAX_ROUNDS) return { kind: "full", reason: `the cut engine did not pass its tests: ${failed.map(({ graph, different, inputs }) => `${different} of ${inputs} inputs of ${graph}`).join(", ")}` };
    for (const one of missed) need(one, "validation");
  }
}

function engineOf(engine: FittedEngine, full: { readonly sha256: string }): EngineReport["engine"] {
  return { kind: "cut", source: full.sha256, sha256: createHash("sha256").update(engine.wasm).digest("hex"), bytes: engine.wasm.byteLength, gzipBytes: engine.gzipBytes, functions: encodeFunctions(engine.keep), functionCount: engine.keep.size };
}

/** First tiers, as long as there is memory for them. */
function chooseBundled(usable: readonly Usable[], { bundledMemoryBytes }: DeploymentConfig): Usable[] {
  let left = bundledMemoryBytes;
  const seen = new Set<string>();
  return usable.filter(({ graph, snapshot }) => {
    if (!graph.first || seen.has(graph.sha256) || snapshot.pageCount * PAGE_BYTES > left) return false;
    seen.add(graph.sha256);
    left -= snapshot.pageCount * PAGE_BYTES;
    return true;
  });
}

function chooseArtifacts({ artifacts = new Map(), config }: BuildOptions): ReadonlyMap<string, Uint8Array> {
  const total = [...artifacts.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  return total <= config.bundledArtifactBytes ? artifacts : new Map();
}

function reportGraph({ model, tier, sha256 }: DeployedGraph, snapshot: GraphSnapshot | NoSnapshot | undefined, bundled: boolean): EngineReport["graphs"][number] {
  const base = { model, tier, sha256, bundled };
  if (snapshot === undefined || "reason" in snapshot) return { ...base, snapshot: null, reason: snapshot?.reason ?? "it was not made" };
  const { plain, pageCount, profile } = snapshot;
  return { ...base, snapshot: { bytes: plain.bytes.byteLength, gzipBytes: gzipSync(plain.bytes).byteLength, memoryBytes: pageCount * PAGE_BYTES, functionsEntered: profile.entered.length } };
}

function inputsDigest({ graphs, config, artifacts = new Map(), trapped = [] }: BuildOptions, engine: string): string {
  const { limits: _limits, ...choices } = config;
  const facts = [RECIPE, engine, choices, trapped, [...artifacts.keys()], graphs.map(({ bytes: _bytes, ...graph }) => graph)];
  return createHash("sha256").update(JSON.stringify(facts)).digest("hex");
}
