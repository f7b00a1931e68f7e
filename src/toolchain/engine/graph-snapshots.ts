// Graph snapshots: takes them in workerd and profiles which engine functions their graphs enter. They are cached in a
// folder by engine and graph, because each one takes a workerd to make.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { deflateRawSync } from "node:zlib";
import * as z from "zod";
import { EdgeTierError } from "../../core/errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import { SESSION_OPTIONS_FINGERPRINT } from "../../runtime/wasm/open-session.ts";
import {
  decodeSnapshot,
  encodeSnapshot,
  type EncodedSnapshot,
  SNAPSHOT_FORMAT,
} from "../../runtime/wasm/snapshot-format.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";
import { instrumentFunctions } from "./instrument-functions.ts";
import type { EngineProfile } from "./sandbox/messages.ts";
import { openSandbox, type Sandbox } from "./sandbox/sandbox.ts";
import { createProfilingInputs, createWarmUpInputs } from "./synthetic-inputs.ts";
import { encodeWasmModule, parseWasmModule } from "./wasm-module.ts";

/** Raise it if a change of this code gives other snapshots or profiles for the same engine and graph. */
const RECIPE_VERSION = 3;

/** A graph that an edge tier runs. */
export interface EdgeGraph {
  readonly model: string;
  readonly tier: string;
  readonly bytes: Uint8Array;
  readonly sha256: string;
  readonly inputs: readonly TensorSpec[];
}

export interface GraphSnapshot {
  /** The snapshot with uncompressed chunks, which is bundled and read at module scope. */
  readonly uncompressed: EncodedSnapshot;
  readonly pageCount: number;
  readonly profile: EngineProfile;
}

/** Why a graph has no snapshot. */
export interface SnapshotFailure {
  readonly reason: string;
}

export interface SnapshotOptions {
  /** Folder of the full engine. */
  readonly engineFolder: string;
  readonly engineSha256: string;
  readonly cacheFolder: string;
  readonly log?: (line: string) => void;
}

/** @returns a snapshot or failure for each graph, by the graph's SHA-256 @throws component_failed */
export async function createSnapshots(
  graphs: readonly EdgeGraph[],
  options: SnapshotOptions,
): Promise<Map<string, GraphSnapshot | SnapshotFailure>> {
  const results = new Map<string, GraphSnapshot | SnapshotFailure>();
  const missing: EdgeGraph[] = [];
  for (const graph of graphs) {
    const cached = await readCachedSnapshot(graph, options);
    if (cached !== undefined) results.set(graph.sha256, cached);
    else if (!missing.some(({ sha256 }) => sha256 === graph.sha256)) missing.push(graph);
  }
  if (missing.length === 0) return results;

  const { engineFolder, engineSha256, log = () => {} } = options;
  const instrumented = encodeWasmModule(
    instrumentFunctions(parseWasmModule(await readFile(join(engineFolder, "engine.wasm")))),
  );
  const sandbox = await openSandbox({
    engineFolder,
    fullEngineSha256: engineSha256,
    derivedEngine: instrumented,
  });
  try {
    for (const graph of missing) {
      log(`snapshot of ${graph.model}, tier ${graph.tier}`);
      const result = await takeSnapshot(sandbox, graph, engineSha256);
      results.set(graph.sha256, result);
      if (!("reason" in result)) await writeCachedSnapshot(graph, result, options);
    }
  } finally {
    await sandbox.close();
  }
  return results;
}

async function takeSnapshot(
  sandbox: Sandbox,
  { bytes, sha256, inputs }: EdgeGraph,
  engineSha256: string,
): Promise<GraphSnapshot | SnapshotFailure> {
  const stringInput = inputs.find(({ datatype }) => datatype === "BYTES");
  if (stringInput !== undefined)
    return { reason: `Input ${stringInput.name} takes strings, which the edge does not support.` };
  try {
    const uncompressed = await sandbox.takeSnapshot(bytes, sha256, createWarmUpInputs(inputs));
    const profile = await sandbox.profile(uncompressed, sha256, [
      ...createWarmUpInputs(inputs),
      ...createProfilingInputs(inputs),
    ]);
    const { pageCount } = decodeUncompressed(uncompressed, engineSha256, sha256);
    return { uncompressed, profile, pageCount };
  } catch (error) {
    const isKnown = error instanceof EdgeTierError && error.code !== "internal";
    if (!isKnown) throw error;
    return { reason: `${error.detail} ${error.remedy}` };
  }
}

/** Compresses a snapshot's chunks for the model store. */
export async function compressSnapshot(
  { uncompressed }: GraphSnapshot,
  engineSha256: string,
  graphSha256: string,
): Promise<EncodedSnapshot> {
  return await encodeSnapshot(
    decodeUncompressed(uncompressed, engineSha256, graphSha256),
    (chunk) => deflateRawSync(chunk, { level: 9 }),
  );
}

const decodeUncompressed = ({ bytes, head }: EncodedSnapshot, engine: string, model: string) =>
  decodeSnapshot(bytes, head.size, { engine, model, choices: SESSION_OPTIONS_FINGERPRINT });

const cachedSnapshotSchema = z.object({
  pageCount: z.number(),
  profile: z.object({
    entered: z.array(z.number()),
    globals: z.array(z.number()),
    startExports: z.array(z.string()),
  }),
  head: z.object({ size: z.number(), sha256: z.string() }),
  sha256: z.string(),
});

function snapshotCachePaths(
  { sha256, inputs }: EdgeGraph,
  { cacheFolder, engineSha256 }: SnapshotOptions,
): { json: string; bin: string } {
  const key = sha256HexSync(
    JSON.stringify([
      RECIPE_VERSION,
      SNAPSHOT_FORMAT,
      engineSha256,
      sha256,
      SESSION_OPTIONS_FINGERPRINT,
      inputs,
    ]),
  );
  return { json: join(cacheFolder, `${key}.json`), bin: join(cacheFolder, `${key}.bin`) };
}

async function readCachedSnapshot(
  graph: EdgeGraph,
  options: SnapshotOptions,
): Promise<GraphSnapshot | undefined> {
  const { json, bin } = snapshotCachePaths(graph, options);
  try {
    const meta = cachedSnapshotSchema.parse(JSON.parse(await readFile(json, "utf8")));
    const bytes = new Uint8Array(await readFile(bin));
    if (sha256HexSync(bytes) !== meta.sha256) return undefined;
    return {
      uncompressed: { bytes, head: meta.head },
      pageCount: meta.pageCount,
      profile: meta.profile,
    };
  } catch {
    return undefined; // A missing or damaged entry leads to a new snapshot.
  }
}

async function writeCachedSnapshot(
  graph: EdgeGraph,
  { uncompressed: { bytes, head }, pageCount, profile }: GraphSnapshot,
  options: SnapshotOptions,
): Promise<void> {
  const { json, bin } = snapshotCachePaths(graph, options);
  await writeFileAtomic(bin, bytes);
  await writeFileAtomic(
    json,
    JSON.stringify({ pageCount, profile, head, sha256: sha256HexSync(bytes) }),
  );
}
