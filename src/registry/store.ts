// The ModelStore over any ObjectStore: layout, verification, and the order of writes that keeps half a version invisible.

import { coreErrors } from "../core/common-errors.ts";
import { registryErrors } from "./errors.ts";
import { publishingErrors } from "./publishing-errors.ts";
import { systemClock, type Clock } from "../core/clock.ts";
import { problemsOf } from "../core/config.ts";
import { reasonOf } from "../core/errors.ts";
import { sha256Hex } from "../core/hash.ts";
import { canonicalJson } from "./canonical-json.ts";
import { deployedEngineSchema } from "./deployed-engine.ts";
import { layout, parseManifestKey } from "./layout.ts";
import { aliasesSchema, manifestSchema, type ArtifactRef, type Manifest } from "./manifest.ts";
import type { AliasesRead, ManifestRead, ModelStore } from "./model-store.ts";
import type { ObjectStore, PutCondition, StoredObject } from "./object-store.ts";
import { readBody, readExactly } from "./read-body.ts";
import type { PublicKey, SigningKey } from "./signing-keys.ts";
import { openManifest, signManifest } from "./signing.ts";

/** Manifests and aliases are small; anything larger is not ours. */
const MAX_JSON_BYTES = 1_048_576;
const TOO_LARGE = `it has more than ${MAX_JSON_BYTES} bytes`;

/** An artifact that was written longer ago is written again by whoever publishes it; gc.ts tells why. */
export const ARTIFACT_FRESH_MS = 3_600_000;

export interface ModelStoreOptions {
  /** Manifests must be signed with one of them; undefined believes any. */
  readonly trustedKeys?: readonly PublicKey[] | undefined;
  /** Manifests that are written are signed with each of them. */
  readonly signingKeys?: readonly SigningKey[];
  readonly clock?: Clock;
}

export function createModelStore(
  objects: ObjectStore,
  { trustedKeys, signingKeys = [], clock = systemClock }: ModelStoreOptions = {},
): ModelStore {
  async function readSignedManifest(
    model: string,
    version: number,
    signal?: AbortSignal,
  ): Promise<ManifestRead | undefined> {
    const found = await objects.get(layout.manifest(model, version), signal);
    if (found === undefined) return undefined;
    const file = await readBody(found.body, MAX_JSON_BYTES);
    if (file === undefined) throw coreErrors.manifestInvalid(model, version, [TOO_LARGE]);
    const opened = await openManifest(file, trustedKeys);
    if ("problem" in opened) throw registryErrors.manifestUntrusted(model, version, opened.problem);
    const json = parseJson(opened.manifest);
    if (!json.ok) throw coreErrors.manifestInvalid(model, version, [json.reason]);
    const parsed = manifestSchema.safeParse(json.value);
    if (!parsed.success) throw coreErrors.manifestInvalid(model, version, problemsOf(parsed.error));
    if (parsed.data.model !== model || parsed.data.version !== version) {
      throw coreErrors.manifestInvalid(model, version, [
        `it names ${parsed.data.model}@${parsed.data.version}`,
      ]);
    }
    return {
      manifest: parsed.data,
      signedBy: opened.signedBy,
      isVerified: trustedKeys !== undefined,
    };
  }

  /** Whether the file holds this content, and would be believed. */
  async function holds(found: StoredObject | undefined, manifest: Manifest): Promise<boolean> {
    const file = found === undefined ? undefined : await readBody(found.body, MAX_JSON_BYTES);
    const opened = file === undefined ? undefined : await openManifest(file, trustedKeys);
    const json =
      opened === undefined || "problem" in opened ? undefined : parseJson(opened.manifest);
    return json?.ok === true && canonicalJson(json.value) === canonicalJson(manifest);
  }

  return {
    async listModels(signal) {
      const manifests = (await objects.list(layout.models, signal)).map(({ key }) =>
        parseManifestKey(key),
      );
      return [
        ...new Set(manifests.flatMap((one) => (one === undefined ? [] : [one.model]))),
      ].sort();
    },

    async listVersions(model, signal) {
      const manifests = (await objects.list(layout.versions(model), signal)).map(({ key }) =>
        parseManifestKey(key),
      );
      return manifests
        .flatMap((one) => (one === undefined ? [] : [one.version]))
        .sort((a, b) => a - b);
    },

    async readAliases(model, signal) {
      const found = await objects.get(layout.aliases(model), signal);
      if (found === undefined) return undefined;
      const json = await readJson(found);
      if (!json.ok) throw registryErrors.aliasesInvalid(model, [json.reason]);
      const parsed = aliasesSchema.safeParse(json.value);
      if (!parsed.success) throw registryErrors.aliasesInvalid(model, problemsOf(parsed.error));
      return { aliases: parsed.data, etag: found.etag };
    },

    async writeAliases(model, aliases, expectedEtag): Promise<AliasesRead> {
      const condition: PutCondition =
        expectedEtag === undefined ? { kind: "absent" } : { kind: "etag", etag: expectedEtag };
      const result = await objects.put(
        layout.aliases(model),
        jsonBytes(aliases),
        condition,
        "application/json",
      );
      if (result.kind === "precondition-failed") throw publishingErrors.aliasConflict(model);
      return { aliases, etag: result.etag };
    },

    readSignedManifest,
    readManifest: async (model, version, signal) =>
      (await readSignedManifest(model, version, signal))?.manifest,

    async writeManifest(manifest) {
      const key = layout.manifest(manifest.model, manifest.version);
      const plain = jsonBytes(manifest);
      const file = signingKeys.length === 0 ? plain : await signManifest(plain, signingKeys);
      const opened = await openManifest(file, trustedKeys);
      if ("problem" in opened) throw publishingErrors.wouldNotBeTrusted(opened.problem);
      const result = await objects.put(key, file, { kind: "absent" }, "application/json");
      if (result.kind === "written") return { created: true };
      if (await holds(await objects.get(key), manifest)) return { created: false };
      throw publishingErrors.versionExists(manifest.model, manifest.version);
    },

    async readArtifact(ref, signal) {
      const found = await objects.get(layout.artifact(ref.sha256), signal);
      if (found === undefined)
        throw registryErrors.artifactCorrupt(ref.sha256, "it is not in the store");
      return await readVerified(ref, found);
    },

    async openArtifact(ref, signal) {
      const found = await objects.get(layout.artifact(ref.sha256), signal);
      if (found === undefined)
        throw registryErrors.artifactCorrupt(ref.sha256, "it is not in the store");
      if (found.size === undefined || found.size === ref.size) return found.body;
      await found.body.cancel();
      throw registryErrors.artifactCorrupt(
        ref.sha256,
        `it has ${found.size} bytes, the manifest says ${ref.size}`,
      );
    },

    hasArtifact: ({ sha256 }) => objects.exists(layout.artifact(sha256)),

    async writeArtifact(bytes) {
      const ref: ArtifactRef = { sha256: await sha256Hex(bytes), size: bytes.byteLength };
      const key = layout.artifact(ref.sha256);
      const found = await objects.get(key);
      const isRight = found !== undefined && (await verify(ref, found)).bytes !== undefined;
      if (isRight && clock.now() - (found.modifiedAtMs ?? 0) < ARTIFACT_FRESH_MS)
        return { ref, created: false };
      const condition: PutCondition =
        found === undefined ? { kind: "absent" } : { kind: "etag", etag: found.etag };
      const result = await objects.put(key, bytes, condition, "application/octet-stream");
      return { ref, created: !isRight && result.kind === "written" }; // otherwise someone else wrote the same bytes meanwhile
    },

    async readDeployedEngine(signal) {
      const found = await objects.get(layout.deployedEngine, signal);
      const json = found === undefined ? undefined : await readJson(found);
      return json?.ok === true ? deployedEngineSchema.safeParse(json.value).data : undefined;
    },

    async writeDeployedEngine(engine) {
      await objects.put(
        layout.deployedEngine,
        jsonBytes(engine),
        { kind: "any" },
        "application/json",
      );
    },
  };
}

/** Reads a body into memory and compares size and SHA-256 before anyone may look at a byte of it. */
async function readVerified(
  ref: ArtifactRef,
  found: StoredObject,
): Promise<Uint8Array<ArrayBuffer>> {
  const checked = await verify(ref, found);
  if (checked.bytes === undefined)
    throw registryErrors.artifactCorrupt(ref.sha256, checked.problem);
  return checked.bytes;
}

type Verified = { bytes: Uint8Array<ArrayBuffer> } | { bytes: undefined; problem: string };

async function verify(ref: ArtifactRef, found: StoredObject): Promise<Verified> {
  const wrong = (problem: string): Verified => ({ bytes: undefined, problem });
  if (found.size !== undefined && found.size !== ref.size) {
    await found.body.cancel();
    return wrong(`it has ${found.size} bytes, the manifest says ${ref.size}`);
  }
  const { bytes, received } = await readExactly(found.body, ref.size);
  if (received > ref.size)
    return wrong(`it has more than the ${ref.size} bytes that the manifest says`);
  if (received < ref.size) return wrong(`it ends after ${received} of ${ref.size} bytes`);
  const digest = await sha256Hex(bytes);
  return digest === ref.sha256 ? { bytes } : wrong(`its SHA-256 is ${digest.slice(0, 12)}…`);
}

type Json = { ok: true; value: unknown } | { ok: false; reason: string };

async function readJson(found: StoredObject): Promise<Json> {
  const bytes = await readBody(found.body, MAX_JSON_BYTES);
  return bytes === undefined ? { ok: false, reason: TOO_LARGE } : parseJson(bytes);
}

function parseJson(bytes: Uint8Array): Json {
  try {
    return { ok: true, value: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) };
  } catch (error) {
    return { ok: false, reason: `it is not JSON: ${reasonOf(error)}` };
  }
}

const jsonBytes = (value: unknown): Uint8Array<ArrayBuffer> =>
  new TextEncoder().encode(`${JSON.stringify(value, undefined, 1)}\n`);
