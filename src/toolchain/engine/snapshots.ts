// Snapshots of graphs, and the functions that running them takes. Kept in a folder by engine and graph, since each takes
// a workerd to make.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { deflateRawSync } from "node:zlib";
import * as z from "zod";
import { EdgeTierError } from "../../core/errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import { SESSION_CHOICES } from "../../runtime/wasm/open-session.ts";
import {
  decodeSnapshot,
  encodeSnapshot,
  type EncodedSnapshot,
  SNAPSHOT_FORMAT,
} from "../../runtime/wasm/snapshot-format.ts";
import { digestOf } from "../digest.ts";
import { writeWhole } from "../write-whole.ts";
import { instrument } from "./instrument.ts";
import { profileInputs, warmUpInputs } from "./sample-inputs.ts";
import { encodeModule, parseModule } from "./wasm-module.ts";
import type { Profile } from "./workshop/messages.ts";
import { openWorkshop } from "./workshop/workshop.ts";

/** Raise it when snapshots or profiles of the same engine and graph become others. */
const RECIPE = 3;

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
  readonly plain: EncodedSnapshot;
  readonly pageCount: number;
  readonly profile: Profile;
}

/** A graph of which no snapshot can be had, and why. */
export interface NoSnapshot {
  readonly reason: string;
}

export interface SnapshotsOptions {
  /** Of the full engine. */
  readonly engineFolder: string;
  readonly engineSha256: string;
  readonly cacheFolder: string;
  readonly log?: (line: string) => void;
}

/** @returns by the graphs' SHA-256 @throws component_failed */
export async function makeSnapshots(
  graphs: readonly EdgeGraph[],
  options: SnapshotsOptions,
): Promise<Map<string, GraphSnapshot | NoSnapshot>> {
  const made = new Map<string, GraphSnapshot | NoSnapshot>();
  const missing: EdgeGraph[] = [];
  for (const graph of graphs) {
    const cached = await readCached(graph, options);
    if (cached !== undefined) made.set(graph.sha256, cached);
    else if (!missing.some(({ sha256 }) => sha256 === graph.sha256)) missing.push(graph);
  }
  if (missing.length === 0) return made;

  const { engineFolder, engineSha256, log = () => {} } = options;
  const instrumented = encodeModule(
    instrument(parseModule(await readFile(join(engineFolder, "engine.wasm")))),
  );
  const workshop = await openWorkshop({ engineFolder, source: engineSha256, other: instrumented });
  try {
    for (const graph of missing) {
      log(`snapshot of ${graph.model}, tier ${graph.tier}`);
      const result = await takeOne(graph);
      made.set(graph.sha256, result);
      if (!("reason" in result)) await writeCached(graph, result, options);
    }
  } finally {
    await workshop.close();
  }
  return made;

  async function takeOne({
    bytes,
    sha256,
    inputs,
  }: EdgeGraph): Promise<GraphSnapshot | NoSnapshot> {
    const text = inputs.find(({ datatype }) => datatype === "BYTES");
    if (text !== undefined)
      return { reason: `Input ${text.name} takes strings, which cannot be run at the edge.` };
    try {
      const plain = await workshop.takeSnapshot(bytes, sha256, warmUpInputs(inputs));
      const profile = await workshop.profile(plain, sha256, [
        ...warmUpInputs(inputs),
        ...profileInputs(inputs),
      ]);
      return { plain, profile, pageCount: decoded(plain, engineSha256, sha256).pageCount };
    } catch (error) {
      const known = error instanceof EdgeTierError && error.code !== "internal";
      if (!known) throw error;
      return { reason: `${error.detail} ${error.remedy}` };
    }
  }
}

/** With compressed chunks: for the model store. */
export async function compressed(
  { plain }: GraphSnapshot,
  engineSha256: string,
  graphSha256: string,
): Promise<EncodedSnapshot> {
  return await encodeSnapshot(decoded(plain, engineSha256, graphSha256), (chunk) =>
    deflateRawSync(chunk, { level: 9 }),
  );
}

const decoded = ({ bytes, head }: EncodedSnapshot, engine: string, model: string) =>
  decodeSnapshot(bytes, head.size, { engine, model, choices: SESSION_CHOICES });

const cachedSchema = z.object({
  pageCount: z.number(),
  profile: z.object({
    entered: z.array(z.number()),
    globals: z.array(z.number()),
    startExports: z.array(z.string()),
  }),
  head: z.object({ size: z.number(), sha256: z.string() }),
  sha256: z.string(),
});

function cacheNames(
  { sha256, inputs }: EdgeGraph,
  { cacheFolder, engineSha256 }: SnapshotsOptions,
): { json: string; bin: string } {
  const key = digestOf(
    JSON.stringify([RECIPE, SNAPSHOT_FORMAT, engineSha256, sha256, SESSION_CHOICES, inputs]),
  );
  return { json: join(cacheFolder, `${key}.json`), bin: join(cacheFolder, `${key}.bin`) };
}

async function readCached(
  graph: EdgeGraph,
  options: SnapshotsOptions,
): Promise<GraphSnapshot | undefined> {
  const { json, bin } = cacheNames(graph, options);
  try {
    const meta = cachedSchema.parse(JSON.parse(await readFile(json, "utf8")));
    const bytes = new Uint8Array(await readFile(bin));
    if (digestOf(bytes) !== meta.sha256) return undefined;
    return { plain: { bytes, head: meta.head }, pageCount: meta.pageCount, profile: meta.profile };
  } catch {
    return undefined; // missing or damaged: it is made again
  }
}

async function writeCached(
  graph: EdgeGraph,
  { plain, pageCount, profile }: GraphSnapshot,
  options: SnapshotsOptions,
): Promise<void> {
  const { json, bin } = cacheNames(graph, options);
  await writeWhole(bin, plain.bytes);
  await writeWhole(
    json,
    JSON.stringify({ pageCount, profile, head: plain.head, sha256: digestOf(plain.bytes) }),
  );
}
