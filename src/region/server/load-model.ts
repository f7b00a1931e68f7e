// From a version in the model store to something that answers: verified, consistent with its manifest, and warmed up.

import { errors } from "../../core/errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import type { Manifest, TierManifest } from "../../registry/manifest.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import type { Runtime, Session } from "../../runtime/runtime.ts";
import type { Preprocessor, TaskInput } from "../../tasks/task.ts";
import { labelsOf } from "../../tasks/labels.ts";
import { taskByName } from "../../tasks/tasks.ts";
import { zeroInputs } from "./warmup-inputs.ts";

export interface LoadedTier {
  readonly manifest: TierManifest;
  readonly session: Session;
  /** Of the task's own inputs; absent where a graph's tensors are all there is. */
  readonly preprocessor?: Preprocessor;
}

/** A version of a model with all its region tiers, of which it has one at least. */
export interface LoadedModel {
  readonly manifest: Manifest;
  /** Reads one of the task's own inputs; absent where there are none. @throws as Task.fromBytes */
  readonly parseInput?: (bytes: Uint8Array, index: number) => TaskInput;
  /** In the order of the logits. */
  readonly labels?: readonly string[];
  readonly tiers: readonly [LoadedTier, ...LoadedTier[]];
}

/**
 * @throws model_not_found, version_not_found, no_region_tier; model_store_unavailable, artifact_corrupt;
 * manifest_invalid where manifest and graph do not belong together; preprocessor_invalid; session_failed.
 */
export async function loadModel(store: ModelStore, runtime: Runtime, model: string, version: number, signal: AbortSignal): Promise<LoadedModel> {
  const manifest = await readKnownManifest(store, model, version, signal);
  const { labels: labelFile } = manifest;
  const labels = labelFile === undefined ? {} : { labels: labelsOf(manifest, await store.readArtifact(labelFile, signal)) };
  const tiers: LoadedTier[] = [];
  try {
    for (const tier of manifest.tiers) {
      if (tier.place === "region") tiers.push(await loadTier(store, runtime, manifest, tier, signal));
    }
  } catch (error) {
    await Promise.allSettled(tiers.map((tier) => tier.session.dispose()));
    throw error;
  }
  const [first, ...others] = tiers;
  if (first === undefined) throw errors.noRegionTier(model, version);
  return { manifest, ...ownInputsOf(manifest), ...labels, tiers: [first, ...others] };
}

/** @throws model_not_found, version_not_found, model_store_unavailable, manifest_invalid */
export async function readKnownManifest(store: ModelStore, model: string, version: number, signal?: AbortSignal): Promise<Manifest> {
  const manifest = await store.readManifest(model, version, signal);
  if (manifest !== undefined) return manifest;
  const versions = await store.listVersions(model, signal);
  throw versions.length === 0 ? errors.modelNotFound(model) : errors.versionNotFound(model, version);
}

async function loadTier(
  store: ModelStore,
  runtime: Runtime,
  manifest: Manifest,
  tier: TierManifest,
  signal: AbortSignal,
): Promise<LoadedTier> {
  const [graph, preprocessor] = await Promise.all([store.readArtifact(tier.graph, signal), readPreprocessor(store, manifest, tier, signal)]);
  const session = await runtime.createSession(graph);
  try {
    const problem = difference("input", tier.inputs, session.inputs) ?? difference("output", tier.outputs, session.outputs);
    if (problem !== undefined) throw errors.manifestInvalid(manifest.model, manifest.version, [`tier ${tier.id}: ${problem}`]);
    // The first run allocates and plans: it must not be a client's. It also shows whether preprocessor and graph fit.
    await session.run(preprocessor === undefined ? zeroInputs(session.inputs) : preprocessor.encode([taskByName(manifest.task).example]));
    return { manifest: tier, session, ...(preprocessor === undefined ? {} : { preprocessor }) };
  } catch (error) {
    await session.dispose();
    throw error;
  }
}

function ownInputsOf(manifest: Manifest): Pick<LoadedModel, "parseInput"> {
  if (manifest.task === "tensor") return {};
  const task = taskByName(manifest.task);
  return { parseInput: (bytes, index) => task.fromBytes(bytes, index, manifest.input) };
}

async function readPreprocessor(store: ModelStore, manifest: Manifest, tier: TierManifest, signal: AbortSignal): Promise<Preprocessor | undefined> {
  if (!("preprocessor" in tier)) return undefined;
  const artifact = await store.readArtifact(tier.preprocessor.artifact, signal);
  return taskByName(manifest.task).createPreprocessor({ ...tier.preprocessor, artifact });
}

/** The first declared tensor that the graph does not have in that form. */
function difference(kind: string, declared: readonly TensorSpec[], actual: readonly TensorSpec[]): string | undefined {
  for (const spec of declared) {
    const found = actual.find((other) => other.name === spec.name);
    if (found === undefined) return `its graph has no ${kind} ${spec.name}`;
    if (found.datatype !== spec.datatype) return `${kind} ${spec.name} is ${found.datatype} in its graph, ${spec.datatype} in the manifest`;
  }
  return undefined;
}
