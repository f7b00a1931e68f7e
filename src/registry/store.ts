// The ModelStore over any ObjectStore: layout, verification, and the order of writes that keeps half a version invisible.

import { problemsOf } from "../core/config.ts";
import { errors, reasonOf } from "../core/errors.ts";
import { sha256Hex } from "../core/hash.ts";
import { layout, parseManifestKey } from "./layout.ts";
import { aliasesSchema, manifestSchema, type ArtifactRef } from "./manifest.ts";
import type { AliasesRead, ModelStore } from "./model-store.ts";
import type { ObjectStore, StoredObject } from "./object-store.ts";

/** Manifests and aliases are small; anything larger is not ours. */
const MAX_JSON_BYTES = 1_048_576;

export function createModelStore(objects: ObjectStore): ModelStore {
  return {
    async listModels(signal) {
      const manifests = (await objects.list(layout.models, signal)).map(parseManifestKey);
      return [...new Set(manifests.flatMap((one) => (one === undefined ? [] : [one.model])))].sort();
    },

    async listVersions(model, signal) {
      const manifests = (await objects.list(layout.versions(model), signal)).map(parseManifestKey);
      return manifests.flatMap((one) => (one === undefined ? [] : [one.version])).sort((a, b) => a - b);
    },

    async readAliases(model, signal) {
      const found = await objects.get(layout.aliases(model), signal);
      if (found === undefined) return undefined;
      const parsed = aliasesSchema.safeParse(await readJson(found));
      if (!parsed.success) throw errors.storeUnavailable(`the aliases of ${model} are not valid: ${problemsOf(parsed.error).join("; ")}`);
      return { aliases: parsed.data, etag: found.etag };
    },

    async writeAliases(model, aliases, expectedEtag): Promise<AliasesRead> {
      const condition = expectedEtag === undefined ? ({ kind: "absent" } as const) : ({ kind: "etag", etag: expectedEtag } as const);
      const result = await objects.put(layout.aliases(model), jsonBytes(aliases), condition, "application/json");
      if (result.kind === "precondition-failed") throw errors.aliasConflict(model);
      return { aliases, etag: result.etag };
    },

    async readManifest(model, version, signal) {
      const found = await objects.get(layout.manifest(model, version), signal);
      if (found === undefined) return undefined;
      const parsed = manifestSchema.safeParse(await readJson(found));
      if (!parsed.success) throw errors.manifestInvalid(model, version, problemsOf(parsed.error));
      if (parsed.data.model !== model || parsed.data.version !== version) {
        throw errors.manifestInvalid(model, version, [`it names ${parsed.data.model}@${parsed.data.version}`]);
      }
      return parsed.data;
    },

    async writeManifest(manifest) {
      const key = layout.manifest(manifest.model, manifest.version);
      const bytes = jsonBytes(manifest);
      const result = await objects.put(key, bytes, { kind: "absent" }, "application/json");
      if (result.kind === "written") return;
      const existing = await objects.get(key);
      const same = existing !== undefined && sameBytes(await readAtMost(existing.body, MAX_JSON_BYTES), bytes);
      if (!same) throw errors.versionExists(manifest.model, manifest.version);
    },

    async readArtifact(ref, signal) {
      const found = await objects.get(layout.artifact(ref.sha256), signal);
      if (found === undefined) throw errors.artifactCorrupt(ref.sha256, "it is not in the store");
      return await readVerified(ref, found);
    },

    async writeArtifact(bytes) {
      const ref: ArtifactRef = { sha256: await sha256Hex(bytes), size: bytes.byteLength };
      const key = layout.artifact(ref.sha256);
      if (await objects.exists(key)) return { ref, created: false };
      const result = await objects.put(key, bytes, { kind: "absent" }, "application/octet-stream");
      return { ref, created: result.kind === "written" };
    },
  };
}

/** Reads a body into memory and compares size and SHA-256 before anyone may look at a byte of it. */
async function readVerified(ref: ArtifactRef, found: StoredObject): Promise<Uint8Array<ArrayBuffer>> {
  if (found.size !== undefined && found.size !== ref.size) {
    await found.body.cancel();
    throw errors.artifactCorrupt(ref.sha256, `it has ${found.size} bytes, the manifest says ${ref.size}`);
  }
  const bytes = await readAtMost(found.body, ref.size);
  if (bytes === undefined) throw errors.artifactCorrupt(ref.sha256, `it has more than the ${ref.size} bytes that the manifest says`);
  if (bytes.byteLength !== ref.size) throw errors.artifactCorrupt(ref.sha256, `it ends after ${bytes.byteLength} of ${ref.size} bytes`);
  const digest = await sha256Hex(bytes);
  if (digest !== ref.sha256) throw errors.artifactCorrupt(ref.sha256, `its SHA-256 is ${digest.slice(0, 12)}…`);
  return bytes;
}

async function readJson(found: StoredObject): Promise<unknown> {
  const bytes = await readAtMost(found.body, MAX_JSON_BYTES);
  try {
    return bytes === undefined ? undefined : JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

/** The whole body, or undefined once it exceeds `maxBytes`. A broken connection is the store's fault. */
async function readAtMost(body: ReadableStream<Uint8Array>, maxBytes: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      size += chunk.byteLength;
      if (size > maxBytes) return undefined; // leaving the loop cancels the stream
      chunks.push(chunk);
    }
  } catch (error) {
    throw errors.storeUnavailable(`the connection broke off: ${reasonOf(error)}`, error);
  }
  const bytes = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return bytes;
}

const jsonBytes = (value: unknown): Uint8Array => new TextEncoder().encode(`${JSON.stringify(value, undefined, 1)}\n`);

function sameBytes(a: Uint8Array | undefined, b: Uint8Array): boolean {
  return a !== undefined && a.byteLength === b.byteLength && a.every((byte, index) => byte === b[index]);
}
