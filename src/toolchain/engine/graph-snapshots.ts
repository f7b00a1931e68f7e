// Snapshots of graphs, and the functions that running them takes. Kept in a folder by engine and graph, since each takes
// a workerd to make.

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
import { createProfilingInputs, createWarmUpInputs } from "./synthetic-inputs.ts";
import { encodeWasmModule, parseWasmModule } from "./wasm-module.ts";
import type { EngineProfile } from "./sandbox/messages.ts";
import { openSandbox } from "./sandbox/sandbox.ts";

/** Raise it when snapshots or profiles of the same engine and graph become others. */
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
  /** Chunks as they are: for what is bundled and read at module scope. */
  readonly uncompressed: EncodedSnapshot;
  readonly pageCount: number;
  readonly profile: EngineProfile;
}

/** A graph of which no snapshot can be had, and why. */
export interface SnapshotFailure {
  readonly reason: string;
}

export interface SnapshotOptions {
  /** Of the full engine. */
  readonly engineFolder: string;
  readonly engineSha256: string;
  readonly cacheFolder: string;
  readonly log?: (line: string) => void;
}

/** @returns by the graphs' SHA-256 @throws component_failed */
export async function createSnapshots(
  graphs: readonly EdgeGraph[],
  options: SnapshotOptions,
): Promise<Map<string, GraphSnapshot | SnapshotFailure>> {
  const made = new Map<string, GraphSnapshot | SnapshotFailure>();
  const missing: EdgeGraph[] = [];
  for (const graph of graphs) {
    const cached = await readCachedSnapshot(graph, options);
    if (cached !== undefined) made.set(graph.sha256, cached);
    else if (!missing.some(({ sha256 }) => sha256 === graph.sha256)) missing.push(graph);
  }
  if (missing.length === 0) return made;

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
      const result = await takeOne(graph);
      made.set(graph.sha256, result);
      if (!("reason" in result)) await writeCachedSnapshot(graph, result, options);
    }
  } finally {
    await sandbox.close();
  }
  return made;

  async function takeOne({
    bytes,
    sha256,
    inputs,
  }: EdgeGraph): Promise<GraphSnapshot | SnapshotFailure> {
    const text = inputs.find(({ datatype }) => datatype === "BYTES");
    if (text !== undefined)
      return { reason: `Input ${text.name} takes strings, which cannot be run at the edge.` };
    try {
      const plain = await sandbox.takeSnapshot(bytes, sha256, createWarmUpInputs(inputs));
      const profile = await sandbox.profile(plain, sha256, [
        ...createWarmUpInputs(inputs),
        ...createProfilingInputs(inputs),
      ]);
      return {
        uncompressed: plain,
        profile,
        pageCount: decodeUncompressed(plain, engineSha256, sha256).pageCount,
      };
    } catch (error) {
      const known = error instanceof EdgeTierError && error.code !== "internal";
      if (!known) throw error;
      return { reason: `${error.detail} ${error.remedy}` };
    }
  }
}

/** With compressed chunks: for the model store. */
export async function compressSnapshot(
  { uncompressed: plain }: GraphSnapshot,
  engineSha256: string,
  graphSha256: string,
): Promise<EncodedSnapshot> {
  return await encodeSnapshot(decodeUncompressed(plain, engineSha256, graphSha256), (chunk) =>
    deflateRawSync(chunk, { level: 9 }),
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
    return undefined; // missing or damaged: it is made again
  }
}

async function writeCachedSnapshot(
  graph: EdgeGraph,
  { uncompressed: plain, pageCount, profile }: GraphSnapshot,
  options: SnapshotOptions,
): Promise<void> {
  const { json, bin } = snapshotCachePaths(graph, options);
  await writeFileAtomic(bin, plain.bytes);
  await writeFileAtomic(
    json,
    JSON.stringify({ pageCount, profile, head: plain.head, sha256: sha256HexSync(plain.bytes) }),
  );
}
