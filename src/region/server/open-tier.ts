// Opens a tier's sessions on the first execution provider that works: as many as configured, each warmed up.

import { coreErrors } from "../../core/common-errors.ts";
import { EdgeTierError } from "../../core/errors.ts";
import { DEFAULT_EXECUTION_PROVIDER } from "../../core/execution-provider.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { ArtifactRef, Manifest, Resumption, TierManifest } from "../../registry/manifest.ts";
import type { ServingConfig } from "../../registry/serving-config.ts";
import type { NativeRuntime } from "../../runtime/native/native-runtime.ts";
import type { Session } from "../../runtime/runtime.ts";
import { createSessionGroup } from "../../runtime/session-group.ts";
import type { Preprocessor } from "../../tasks/task.ts";
import { getTask } from "../../tasks/tasks.ts";
import { regionServerErrors } from "./errors.ts";
import {
  openWithProviderFallback,
  type ProviderEvent,
  type ProviderReport,
} from "./provider-fallback.ts";
import { sharedImageDecoder } from "./shared-image-decoder.ts";
import { generateInputs } from "./warmup-inputs.ts";
import { warmUp, createWarmupRuns, type WarmupRun } from "./warmup.ts";

export interface OpenTierDependencies {
  readonly runtime: NativeRuntime;
  /** @throws model_store_unavailable, artifact_corrupt */
  readonly readFile: (file: ArtifactRef) => Promise<Uint8Array>;
  readonly onProviderEvent?: (event: ProviderEvent, tier: string) => void;
}

export interface OpenedTier {
  /** Covers all instances. */
  readonly session: Session;
  /** Encodes task inputs; absent for tiers that take tensors only. */
  readonly preprocessor?: Preprocessor;
  /** Outcome of each configured execution provider. */
  readonly providerReports: readonly ProviderReport[];
}

/** @throws manifest_invalid, preprocessor_invalid, session_failed, warmup_failed, and what `readFile` throws */
export async function openTier(
  manifest: Manifest,
  tier: TierManifest,
  serving: ServingConfig<ArtifactRef>,
  opener: OpenTierDependencies,
): Promise<OpenedTier> {
  const { readFile } = opener;
  const preprocessor = await readPreprocessor(manifest, tier, readFile);
  const example = (rows: number) =>
    createExampleInputs(manifest, tier, serving, preprocessor, rows);
  const runs = await createWarmupRuns(serving.warmup, {
    tier: tier.id,
    specs: tier.inputs,
    createExample: example,
    readFile,
  });

  const {
    session: first,
    providerReports,
    openInstance,
  } = await openFirstSession(manifest, tier, serving, runs, opener);
  const sessions = [first];
  try {
    checkGraphSignature(manifest, tier, first);
    while (sessions.length < (serving.instances ?? 1)) sessions.push(await openInstance());
    // The first run allocates and plans, so it must not be a client's. It also verifies that preprocessor and graph match.
    for (const session of sessions) await warmUp(session, tier.id, runs);
    return {
      session: sessions.length === 1 ? first : createSessionGroup(sessions),
      providerReports,
      ...(preprocessor === undefined ? {} : { preprocessor }),
    };
  } catch (error) {
    await Promise.allSettled(sessions.map((session) => session.dispose()));
    throw error;
  }
}

/**
 * Opens the rest of a tier's graph in the same way as the tier itself. Its warm-up uses the same batch sizes and the inputs that
 * it declares.
 * @param name in messages and figures
 * @throws as openTier
 */
export async function openResumption(
  manifest: Manifest,
  tier: TierManifest,
  { graph, inputs }: Resumption,
  name: string,
  serving: ServingConfig<ArtifactRef>,
  opener: OpenTierDependencies,
): Promise<OpenedTier> {
  const { place, precision, outputs } = tier;
  const warmup = serving.warmup?.map(({ inputs: _tierInputs, ...sample }) => sample);
  return await openTier(
    manifest,
    { id: name, place, precision, graph, inputs, outputs, figures: {} },
    { ...serving, warmup },
    opener,
  );
}

interface OpenedSession {
  readonly session: Session;
  readonly providerReports: readonly ProviderReport[];
  openInstance(): Promise<Session>;
}

async function openFirstSession(
  manifest: Manifest,
  tier: TierManifest,
  serving: ServingConfig<ArtifactRef>,
  [firstRun]: readonly [WarmupRun, ...WarmupRun[]],
  opener: OpenTierDependencies,
): Promise<OpenedSession> {
  const { runtime, readFile, onProviderEvent = () => {} } = opener;
  const {
    executionProviders = [DEFAULT_EXECUTION_PROVIDER],
    intraOpThreads,
    graphOptimization,
  } = serving;
  const sessionOptions = {
    label: `${manifest.model}@${manifest.version}/${tier.id}`,
    intraOpThreads,
    graphOptimization,
  };
  const fp32 = await readFile(tier.graph);
  const [preferred] = executionProviders;
  if (preferred?.name === "cpu") {
    // The CPU needs no trial, because it is the reference itself.
    const open = () => runtime.createSession(fp32, { ...sessionOptions, provider: preferred });
    const providerReports = executionProviders.map(
      ({ name }) =>
        ({ name, precision: "fp32", state: name === "cpu" ? "used" : "not_tried" }) as const,
    );
    return { session: await open(), providerReports, openInstance: open };
  }
  const acceptsFp16 = executionProviders.some(
    (provider) => "precision" in provider && provider.precision === "fp16",
  );
  const fp16 =
    acceptsFp16 && tier.fp16Graph !== undefined ? await readFile(tier.fp16Graph) : undefined;
  try {
    return await openWithProviderFallback({
      runtime,
      graphByPrecision: { fp32, fp16 },
      providers: executionProviders,
      trialInputs: firstRun.inputs,
      sessionOptions,
      onEvent: (event) => onProviderEvent(event, tier.id),
    });
  } catch (error) {
    const isInputError = error instanceof EdgeTierError && error.code === "invalid_tensor";
    throw isInputError
      ? regionServerErrors.warmupFailed(firstRun.name, tier.id, error.detail, error)
      : error;
  }
}

/** Encodes the task's example. Without a task, generates zeros, or values in which providers can differ. */
function createExampleInputs(
  manifest: Manifest,
  { inputs }: TierManifest,
  serving: ServingConfig<ArtifactRef>,
  preprocessor: Preprocessor | undefined,
  rows: number,
): NamedTensors {
  if (preprocessor === undefined)
    return generateInputs(inputs, rows, isCpuPreferred(serving) ? "zero" : "random");
  const { exampleInput } = getTask(manifest.task);
  return preprocessor.encode(Array.from({ length: rows }, () => exampleInput));
}

const isCpuPreferred = ({
  executionProviders = [DEFAULT_EXECUTION_PROVIDER],
}: ServingConfig<ArtifactRef>) => executionProviders[0]?.name === "cpu";

async function readPreprocessor(
  manifest: Manifest,
  tier: TierManifest,
  readFile: OpenTierDependencies["readFile"],
): Promise<Preprocessor | undefined> {
  if (!("preprocessor" in tier)) return undefined;
  const spec = tier.preprocessor;
  return getTask(manifest.task).createPreprocessor(
    "artifact" in spec ? { ...spec, artifact: await readFile(spec.artifact) } : spec,
    { imageDecoder: sharedImageDecoder },
  );
}

/** @throws manifest_invalid */
function checkGraphSignature(manifest: Manifest, tier: TierManifest, session: Session): void {
  const problem =
    findSignatureMismatch("input", tier.inputs, session.inputs) ??
    findSignatureMismatch("output", tier.outputs, session.outputs);
  if (problem !== undefined)
    throw coreErrors.manifestInvalid(manifest.model, manifest.version, [
      `tier ${tier.id}: ${problem}`,
    ]);
}

/** Returns the first declared tensor that the graph lacks or has with another datatype. */
function findSignatureMismatch(
  kind: string,
  declared: readonly TensorSpec[],
  actual: readonly TensorSpec[],
): string | undefined {
  for (const spec of declared) {
    const found = actual.find((other) => other.name === spec.name);
    if (found === undefined) return `its graph has no ${kind} ${spec.name}`;
    if (found.datatype !== spec.datatype)
      return `${kind} ${spec.name} is ${found.datatype} in its graph, ${spec.datatype} in the manifest`;
  }
  return undefined;
}
