// ModelStore over any ObjectStore: applies the store layout, verification, and conditional writes.

import { systemClock, type Clock } from "../core/clock.ts";
import { coreErrors } from "../core/common-errors.ts";
import { formatZodIssues } from "../core/config.ts";
import { reasonOf } from "../core/errors.ts";
import { sha256Hex } from "../core/hash.ts";
import { canonicalJson } from "./canonical-json.ts";
import { deployedEngineSchema } from "./deployed-engine.ts";
import { registryErrors } from "./errors.ts";
import { openEnvelope, signManifest } from "./manifest-signing.ts";
import {
  aliasesSchema,
  manifestSchema,
  renameFormerFields,
  type ArtifactRef,
  type Manifest,
} from "./manifest.ts";
import type { StoredAliases, SignedManifest, ModelStore } from "./model-store.ts";
import type { ObjectStore, PutCondition, StoredObject } from "./object-store.ts";
import { publishingErrors } from "./publishing-errors.ts";
import { readObjectBody, readExactBytes } from "./read-object-body.ts";
import type { PublicKey, SigningKey } from "./signing-keys.ts";
import { storeLayout, parseManifestKey } from "./store-layout.ts";

/** Limit of manifests and aliases, which are small. */
const MAX_JSON_BYTES = 1_048_576;
const TOO_LARGE_REASON = `it has more than ${MAX_JSON_BYTES} bytes`;

/** Publishers rewrite an artifact that is older than this; garbage-collection.ts explains why. */
export const ARTIFACT_REWRITE_AGE_MS = 3_600_000;

export interface ModelStoreOptions {
  /** Keys that must have signed a manifest; undefined trusts any manifest. */
  readonly trustedKeys?: readonly PublicKey[] | undefined;
  /** Keys that sign each written manifest. */
  readonly signingKeys?: readonly SigningKey[];
  readonly clock?: Clock;
}

export function createModelStore(
  objects: ObjectStore,
  { trustedKeys, signingKeys = [], clock = systemClock }: ModelStoreOptions = {},
): ModelStore {
  return {
    ...createListMethods(objects),
    ...createAliasMethods(objects),
    ...createManifestMethods(objects, trustedKeys, signingKeys),
    ...createArtifactMethods(objects, clock),
    ...createEngineMethods(objects),
  };
}

function createListMethods(objects: ObjectStore): Pick<ModelStore, "listModels" | "listVersions"> {
  async function listManifestKeys(prefix: string, signal: AbortSignal | undefined) {
    const listed = await objects.list(prefix, signal);
    return listed.map(({ key }) => parseManifestKey(key)).filter((parsed) => parsed !== undefined);
  }

  return {
    async listModels(signal) {
      const manifests = await listManifestKeys(storeLayout.models, signal);
      return [...new Set(manifests.map(({ model }) => model))].sort();
    },

    async listVersions(model, signal) {
      const manifests = await listManifestKeys(storeLayout.versions(model), signal);
      return manifests.map(({ version }) => version).sort((a, b) => a - b);
    },
  };
}

function createAliasMethods(
  objects: ObjectStore,
): Pick<ModelStore, "readAliases" | "writeAliases"> {
  return {
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
  };
}

function createManifestMethods(
  objects: ObjectStore,
  trustedKeys: readonly PublicKey[] | undefined,
  signingKeys: readonly SigningKey[],
): Pick<ModelStore, "readManifest" | "readSignedManifest" | "writeManifest"> {
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
    return {
      manifest: parseManifest(model, version, opened.manifest),
      signedBy: opened.signedBy,
      isVerified: trustedKeys !== undefined,
    };
  }

  /** Returns whether a stored file is trusted and has the same content as the manifest. */
  async function hasContent(found: StoredObject | undefined, manifest: Manifest): Promise<boolean> {
    const file = found === undefined ? undefined : await readObjectBody(found.body, MAX_JSON_BYTES);
    const opened = file === undefined ? undefined : await openEnvelope(file, trustedKeys);
    const json =
      opened === undefined || "problem" in opened ? undefined : tryParseJson(opened.manifest);
    return (
      json?.ok === true && canonicalJson(renameFormerFields(json.value)) === canonicalJson(manifest)
    );
  }

  return {
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
      if (await hasContent(await objects.get(key), manifest)) return { created: false };
      throw publishingErrors.versionExists(manifest.model, manifest.version);
    },
  };
}

/** @throws manifest_invalid */
function parseManifest(model: string, version: number, bytes: Uint8Array): Manifest {
  const json = tryParseJson(bytes);
  if (!json.ok) throw coreErrors.manifestInvalid(model, version, [json.reason]);
  const parsed = manifestSchema.safeParse(json.value);
  if (!parsed.success)
    throw coreErrors.manifestInvalid(model, version, formatZodIssues(parsed.error));
  if (parsed.data.model !== model || parsed.data.version !== version) {
    throw coreErrors.manifestInvalid(model, version, [
      `it describes ${parsed.data.model}@${parsed.data.version}`,
    ]);
  }
  return parsed.data;
}

function createArtifactMethods(
  objects: ObjectStore,
  clock: Clock,
): Pick<ModelStore, "readArtifact" | "streamArtifact" | "hasArtifact" | "writeArtifact"> {
  async function getArtifact(sha256: string, signal: AbortSignal | undefined) {
    const found = await objects.get(storeLayout.artifact(sha256), signal);
    if (found === undefined) throw registryErrors.artifactCorrupt(sha256, "it is not in the store");
    return found;
  }

  return {
    async readArtifact(ref, signal) {
      return await readVerifiedArtifact(ref, await getArtifact(ref.sha256, signal));
    },

    async streamArtifact(ref, signal) {
      const found = await getArtifact(ref.sha256, signal);
      if (found.size === undefined || found.size === ref.size) return found.body;
      await found.body.cancel();
      throw registryErrors.artifactCorrupt(ref.sha256, formatWrongSize(found.size, ref));
    },

    hasArtifact: ({ sha256 }) => objects.exists(storeLayout.artifact(sha256)),

    async writeArtifact(bytes) {
      const ref: ArtifactRef = { sha256: await sha256Hex(bytes), size: bytes.byteLength };
      const key = storeLayout.artifact(ref.sha256);
      const found = await objects.get(key);
      const isIntact =
        found !== undefined && (await verifyArtifact(ref, found)).bytes !== undefined;
      if (isIntact && clock.now() - (found.modifiedAtMs ?? 0) < ARTIFACT_REWRITE_AGE_MS)
        return { ref, created: false };
      const condition: PutCondition =
        found === undefined ? { kind: "absent" } : { kind: "etag", etag: found.etag };
      // If the condition fails, another publisher has written the same bytes.
      const result = await objects.put(key, bytes, condition, "application/octet-stream");
      return { ref, created: !isIntact && result.kind === "written" };
    },
  };
}

function createEngineMethods(
  objects: ObjectStore,
): Pick<ModelStore, "readDeployedEngine" | "writeDeployedEngine"> {
  return {
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

const formatWrongSize = (size: number, ref: ArtifactRef): string =>
  `it has ${size} bytes instead of the manifest's ${ref.size}`;

/** Reads an artifact into memory, and verifies size and SHA-256 before it returns any byte. */
async function readVerifiedArtifact(
  ref: ArtifactRef,
  found: StoredObject,
): Promise<Uint8Array<ArrayBuffer>> {
  const verified = await verifyArtifact(ref, found);
  if (verified.bytes === undefined)
    throw registryErrors.artifactCorrupt(ref.sha256, verified.problem);
  return verified.bytes;
}

type ArtifactVerification =
  | { bytes: Uint8Array<ArrayBuffer> }
  | { bytes: undefined; problem: string };

async function verifyArtifact(
  ref: ArtifactRef,
  found: StoredObject,
): Promise<ArtifactVerification> {
  const fail = (problem: string): ArtifactVerification => ({ bytes: undefined, problem });
  if (found.size !== undefined && found.size !== ref.size) {
    await found.body.cancel();
    return fail(formatWrongSize(found.size, ref));
  }
  const { bytes, received } = await readExactBytes(found.body, ref.size);
  if (received > ref.size) return fail(`it has more than the manifest's ${ref.size} bytes`);
  if (received < ref.size) return fail(`it ends after ${received} of ${ref.size} bytes`);
  const digest = await sha256Hex(bytes);
  return digest === ref.sha256 ? { bytes } : fail(`its SHA-256 is ${digest.slice(0, 12)}…`);
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
