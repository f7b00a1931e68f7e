// The ModelStore over any ObjectStore: layout, verification, and the order of writes that keeps half a version invisible.

import { coreErrors } from "../core/common-errors.ts";
import { registryErrors } from "./errors.ts";
import { publishingErrors } from "./publishing-errors.ts";
import { systemClock, type Clock } from "../core/clock.ts";
import { formatZodIssues } from "../core/config.ts";
import { reasonOf } from "../core/errors.ts";
import { sha256Hex } from "../core/hash.ts";
import { canonicalJson } from "./canonical-json.ts";
import { deployedEngineSchema } from "./deployed-engine.ts";
import { storeLayout, parseManifestKey } from "./store-layout.ts";
import { aliasesSchema, manifestSchema, type ArtifactRef, type Manifest } from "./manifest.ts";
import type { StoredAliases, SignedManifest, ModelStore } from "./model-store.ts";
import type { ObjectStore, PutCondition, StoredObject } from "./object-store.ts";
import { readObjectBody, readExactBytes } from "./read-object-body.ts";
import type { PublicKey, SigningKey } from "./signing-keys.ts";
import { openEnvelope, signManifest } from "./manifest-signing.ts";

/** Manifests and aliases are small; anything larger is not ours. */
const MAX_JSON_BYTES = 1_048_576;
const TOO_LARGE_REASON = `it has more than ${MAX_JSON_BYTES} bytes`;

/** An artifact that was written longer ago is written again by whoever publishes it; gc.ts tells why. */
export const ARTIFACT_REWRITE_AGE_MS = 3_600_000;

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
  ): Promise<SignedManifest | undefined> {
    const found = await objects.get(storeLayout.manifest(model, version), signal);
    if (found === undefined) return undefined;
    const file = await readObjectBody(found.body, MAX_JSON_BYTES);
    if (file === undefined) throw coreErrors.manifestInvalid(model, version, [TOO_LARGE_REASON]);
    const opened = await openEnvelope(file, trustedKeys);
    if ("problem" in opened) throw registryErrors.manifestUntrusted(model, version, opened.problem);
    const json = tryParseJson(opened.manifest);
    if (!json.ok) throw coreErrors.manifestInvalid(model, version, [json.reason]);
    const parsed = manifestSchema.safeParse(json.value);
    if (!parsed.success)
      throw coreErrors.manifestInvalid(model, version, formatZodIssues(parsed.error));
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
    const file = found === undefined ? undefined : await readObjectBody(found.body, MAX_JSON_BYTES);
    const opened = file === undefined ? undefined : await openEnvelope(file, trustedKeys);
    const json =
      opened === undefined || "problem" in opened ? undefined : tryParseJson(opened.manifest);
    return json?.ok === true && canonicalJson(json.value) === canonicalJson(manifest);
  }

  return {
    async listModels(signal) {
      const manifests = (await objects.list(storeLayout.models, signal)).map(({ key }) =>
        parseManifestKey(key),
      );
      return [
        ...new Set(manifests.flatMap((one) => (one === undefined ? [] : [one.model]))),
      ].sort();
    },

    async listVersions(model, signal) {
      const manifests = (await objects.list(storeLayout.versions(model), signal)).map(({ key }) =>
        parseManifestKey(key),
      );
      return manifests
        .flatMap((one) => (one === undefined ? [] : [one.version]))
        .sort((a, b) => a - b);
    },

    async readAliases(model, signal) {
      const found = await objects.get(storeLayout.aliases(model), signal);
      if (found === undefined) return undefined;
      const json = await readJsonObject(found);
      if (!json.ok) throw registryErrors.aliasesInvalid(model, [json.reason]);
      const parsed = aliasesSchema.safeParse(json.value);
      if (!parsed.success)
        throw registryErrors.aliasesInvalid(model, formatZodIssues(parsed.error));
      return { aliases: parsed.data, etag: found.etag };
    },

    async writeAliases(model, aliases, expectedEtag): Promise<StoredAliases> {
      const condition: PutCondition =
        expectedEtag === undefined ? { kind: "absent" } : { kind: "etag", etag: expectedEtag };
      const result = await objects.put(
        storeLayout.aliases(model),
        encodeJson(aliases),
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
      const key = storeLayout.manifest(manifest.model, manifest.version);
      const plain = encodeJson(manifest);
      const file = signingKeys.length === 0 ? plain : await signManifest(plain, signingKeys);
      const opened = await openEnvelope(file, trustedKeys);
      if ("problem" in opened) throw publishingErrors.wouldNotBeTrusted(opened.problem);
      const result = await objects.put(key, file, { kind: "absent" }, "application/json");
      if (result.kind === "written") return { created: true };
      if (await holds(await objects.get(key), manifest)) return { created: false };
      throw publishingErrors.versionExists(manifest.model, manifest.version);
    },

    async readArtifact(ref, signal) {
      const found = await objects.get(storeLayout.artifact(ref.sha256), signal);
      if (found === undefined)
        throw registryErrors.artifactCorrupt(ref.sha256, "it is not in the store");
      return await readVerifiedArtifact(ref, found);
    },

    async streamArtifact(ref, signal) {
      const found = await objects.get(storeLayout.artifact(ref.sha256), signal);
      if (found === undefined)
        throw registryErrors.artifactCorrupt(ref.sha256, "it is not in the store");
      if (found.size === undefined || found.size === ref.size) return found.body;
      await found.body.cancel();
      throw registryErrors.artifactCorrupt(
        ref.sha256,
        `it has ${found.size} bytes, the manifest says ${ref.size}`,
      );
    },

    hasArtifact: ({ sha256 }) => objects.exists(storeLayout.artifact(sha256)),

    async writeArtifact(bytes) {
      const ref: ArtifactRef = { sha256: await sha256Hex(bytes), size: bytes.byteLength };
      const key = storeLayout.artifact(ref.sha256);
      const found = await objects.get(key);
      const isRight = found !== undefined && (await verifyArtifact(ref, found)).bytes !== undefined;
      if (isRight && clock.now() - (found.modifiedAtMs ?? 0) < ARTIFACT_REWRITE_AGE_MS)
        return { ref, created: false };
      const condition: PutCondition =
        found === undefined ? { kind: "absent" } : { kind: "etag", etag: found.etag };
      const result = await objects.put(key, bytes, condition, "application/octet-stream");
      return { ref, created: !isRight && result.kind === "written" }; // otherwise someone else wrote the same bytes meanwhile
    },

    async readDeployedEngine(signal) {
      const found = await objects.get(storeLayout.deployedEngine, signal);
      const json = found === undefined ? undefined : await readJsonObject(found);
      return json?.ok === true ? deployedEngineSchema.safeParse(json.value).data : undefined;
    },

    async writeDeployedEngine(engine) {
      await objects.put(
        storeLayout.deployedEngine,
        encodeJson(engine),
        { kind: "any" },
        "application/json",
      );
    },
  };
}

/** Reads a body into memory and compares size and SHA-256 before anyone may look at a byte of it. */
async function readVerifiedArtifact(
  ref: ArtifactRef,
  found: StoredObject,
): Promise<Uint8Array<ArrayBuffer>> {
  const checked = await verifyArtifact(ref, found);
  if (checked.bytes === undefined)
    throw registryErrors.artifactCorrupt(ref.sha256, checked.problem);
  return checked.bytes;
}

type ArtifactVerification =
  | { bytes: Uint8Array<ArrayBuffer> }
  | { bytes: undefined; problem: string };

async function verifyArtifact(
  ref: ArtifactRef,
  found: StoredObject,
): Promise<ArtifactVerification> {
  const wrong = (problem: string): ArtifactVerification => ({ bytes: undefined, problem });
  if (found.size !== undefined && found.size !== ref.size) {
    await found.body.cancel();
    return wrong(`it has ${found.size} bytes, the manifest says ${ref.size}`);
  }
  const { bytes, received } = await readExactBytes(found.body, ref.size);
  if (received > ref.size)
    return wrong(`it has more than the ${ref.size} bytes that the manifest says`);
  if (received < ref.size) return wrong(`it ends after ${received} of ${ref.size} bytes`);
  const digest = await sha256Hex(bytes);
  return digest === ref.sha256 ? { bytes } : wrong(`its SHA-256 is ${digest.slice(0, 12)}…`);
}

type JsonResult = { ok: true; value: unknown } | { ok: false; reason: string };

async function readJsonObject(found: StoredObject): Promise<JsonResult> {
  const bytes = await readObjectBody(found.body, MAX_JSON_BYTES);
  return bytes === undefined ? { ok: false, reason: TOO_LARGE_REASON } : tryParseJson(bytes);
}

function tryParseJson(bytes: Uint8Array): JsonResult {
  try {
    return { ok: true, value: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) };
  } catch (error) {
    return { ok: false, reason: `it is not JSON: ${reasonOf(error)}` };
  }
}

const encodeJson = (value: unknown): Uint8Array<ArrayBuffer> =>
  new TextEncoder().encode(`${JSON.stringify(value, undefined, 1)}\n`);
