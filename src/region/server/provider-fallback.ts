// Opens a tier on the first configured execution provider that works. Each provider is tried on an input in a separate session,
// and its outputs are compared with those of the same graph on the CPU.
//
// An FP16 graph is compared with the FP16 graph on the CPU. If it was made from a quantized graph, it does not round to 8 bits.
// It would then differ from that graph by more than a provider may differ from the CPU. The CPU is tried last and always works.

import { systemClock, type Clock } from "../../core/clock.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import {
  DEFAULT_EXECUTION_PROVIDER,
  type ExecutionProvider,
  type ExecutionProviderName,
  type FloatPrecision,
} from "../../core/execution-provider.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { compareOutputs } from "../../runtime/native/compare-outputs.ts";
import { nativeErrors } from "../../runtime/native/errors.ts";
import type { NativeRuntime, NativeSession } from "../../runtime/native/native-runtime.ts";
import type { NodeCounts } from "../../runtime/native/node-counter.ts";
import {
  disposeInBackground,
  probeSession,
  type SessionProbe,
} from "../../runtime/native/probe-session.ts";
import type { NativeSessionOptions } from "../../runtime/native/session-options.ts";

/** Outcome of one configured provider, as the model's configuration shows it. */
export interface ProviderReport {
  readonly name: ExecutionProviderName;
  /** Precision of the graph. */
  readonly precision: FloatPrecision;
  readonly state: "used" | "skipped" | "not_tried";
  /** Why the provider was skipped, and a remedy. */
  readonly reason?: string;
  /** Maximum difference from the CPU's outputs, if the provider produced any. */
  readonly maxAbsDifference?: number;
  /** Time to open the session and run it once. */
  readonly openMs?: number;
  /** Time of a run after the first. */
  readonly runMs?: number;
  /** Number of graph nodes per provider; nodes that a provider does not support run on the CPU. */
  readonly nodes?: NodeCounts;
}

/** Event for log and metrics. `label` is the session's label. */
export type ProviderEvent = {
  readonly event: "provider_used" | "provider_skipped";
  readonly label?: string;
} & ProviderReport;

export interface ProviderFallbackOptions {
  readonly runtime: NativeRuntime;
  readonly graphByPrecision: { readonly fp32: Uint8Array; readonly fp16?: Uint8Array | undefined };
  /** In order of preference. */
  readonly providers: readonly ExecutionProvider[];
  /** Inputs of the trial. Zeros would hide many faults. */
  readonly trialInputs: NamedTensors;
  /** Options for the sessions of all providers. */
  readonly sessionOptions?: Omit<NativeSessionOptions, "provider" | "countNodes">;
  /** Limit for one provider from opening to the last run; TensorRT builds its engine in this time. */
  readonly trialTimeoutMs?: number;
  readonly clock?: Clock;
  readonly onEvent?: (event: ProviderEvent) => void;
}

export interface ProviderSession {
  /** The session has already run. */
  readonly session: NativeSession;
  /** In order of preference; the CPU is always included. */
  readonly providerReports: readonly ProviderReport[];
  /** Opens a further session of the same graph on the same provider. */
  openInstance(): Promise<NativeSession>;
}

/** @throws session_failed, session_lost, invalid_tensor, provider_too_slow if even the CPU cannot run the graph */
export async function openWithProviderFallback(
  options: ProviderFallbackOptions,
): Promise<ProviderSession> {
  const { providers } = options;
  const cpu = providers.find(({ name }) => name === "cpu") ?? DEFAULT_EXECUTION_PROVIDER;
  const order = providers.includes(cpu) ? providers : [...providers, cpu];
  const trials = createProviderTrials(options, cpu);

  async function openFirstWorking(): Promise<{
    readonly provider: ExecutionProvider;
    readonly session: NativeSession;
  }> {
    for (const provider of order.slice(0, order.indexOf(cpu))) {
      const session = await trials.openCandidate(provider);
      if (session !== undefined) return { provider, session };
    }
    return { provider: cpu, session: await trials.openOnCpu() };
  }

  let session: NativeSession | undefined;
  try {
    const used = await openFirstWorking();
    session = used.session;
    for (const provider of order.slice(order.indexOf(used.provider) + 1))
      trials.skipUntried(provider);
    return {
      session,
      providerReports: trials.reports,
      openInstance: () => trials.openInstance(used.provider),
    };
  } finally {
    await trials.disposeReferences(session);
  }
}

/** Tries providers, compares them with reference sessions on the CPU, and reports the outcomes. */
function createProviderTrials(options: ProviderFallbackOptions, cpu: ExecutionProvider) {
  const { graphByPrecision, trialInputs, trialTimeoutMs = 600_000, clock = systemClock } = options;
  const { reports, report } = createProviderReports(options);
  /** Sessions on the CPU, by precision of the graph. */
  const references = new Map<FloatPrecision, SessionProbe>();

  const precisionFor = (provider: ExecutionProvider): FloatPrecision =>
    "precision" in provider && graphByPrecision.fp16 !== undefined ? provider.precision : "fp32";

  const probe = (provider: ExecutionProvider, precision: FloatPrecision): Promise<SessionProbe> =>
    probeSession(
      (signal) =>
        openSession(options, { provider, precision, countNodes: provider !== cpu }, signal),
      trialInputs,
      trialTimeoutMs,
      clock,
    );

  async function getReference(precision: FloatPrecision): Promise<SessionProbe> {
    const reference = references.get(precision) ?? (await probe(cpu, precision));
    references.set(precision, reference);
    return reference;
  }

  return {
    reports,

    /** @returns undefined if the provider does not work */
    async openCandidate(provider: ExecutionProvider): Promise<NativeSession | undefined> {
      const entry = { name: provider.name, precision: precisionFor(provider) };
      try {
        const { outputs } = await getReference(entry.precision);
        const trial = await probe(provider, entry.precision);
        const { maxAbsDifference, problem } = compareOutputs(outputs, trial.outputs);
        const reason = runsNoNodes(provider.name, trial)
          ? "none of the graph's nodes runs on it"
          : problem;
        const state = reason === undefined ? { state: "used" as const } : skipped(reason);
        report({ ...entry, ...state, maxAbsDifference, ...timingsOf(trial) });
        if (reason === undefined) return trial.session;
        disposeInBackground(trial.session);
      } catch (error) {
        report({ ...entry, ...skipped(describeUnavailable(provider.name, error)) });
      }
      return undefined;
    },

    async openOnCpu(): Promise<NativeSession> {
      const trial = await getReference("fp32");
      report({ name: "cpu", precision: "fp32", state: "used", ...timingsOf(trial) });
      return trial.session;
    },

    skipUntried: (provider: ExecutionProvider) =>
      report({ name: provider.name, precision: precisionFor(provider), state: "not_tried" }),

    openInstance: (provider: ExecutionProvider) =>
      openSession(options, { provider, precision: precisionFor(provider) }),

    async disposeReferences(except: NativeSession | undefined): Promise<void> {
      for (const { session } of references.values())
        if (session !== except) await session.dispose();
    },
  };
}

function openSession(
  { runtime, graphByPrecision, sessionOptions }: ProviderFallbackOptions,
  {
    provider,
    precision,
    ...trialOptions
  }: {
    readonly provider: ExecutionProvider;
    readonly precision: FloatPrecision;
    readonly countNodes?: boolean;
  },
  signal?: AbortSignal,
): Promise<NativeSession> {
  return runtime.createSession(
    graphByPrecision[precision] ?? graphByPrecision.fp32,
    { ...sessionOptions, ...trialOptions, provider },
    signal,
  );
}

function createProviderReports({
  sessionOptions: { label } = {},
  onEvent = () => {},
}: ProviderFallbackOptions) {
  const reports: ProviderReport[] = [];
  return {
    reports,
    report(entry: ProviderReport): void {
      reports.push(entry);
      if (entry.state === "not_tried") return;
      onEvent({
        event: `provider_${entry.state}`,
        ...(label !== undefined && { label }),
        ...entry,
      });
    },
  };
}

const skipped = (reason: string) => ({ state: "skipped", reason }) as const;

const timingsOf = ({ openMs, runMs, session: { nodes } }: SessionProbe) => ({
  openMs,
  runMs,
  ...(nodes && { nodes }),
});

const runsNoNodes = (name: ExecutionProviderName, { session: { nodes } }: SessionProbe): boolean =>
  nodes !== undefined && nodes[name] === undefined;

/** Remedies by ONNX Runtime's message. */
const PROVIDER_REMEDIES: readonly (readonly [
  pattern: RegExp,
  remedy: (name: ExecutionProviderName) => string,
])[] = [
  [
    /load shared library/i,
    (name) =>
      `Install NVIDIA's driver, CUDA 12, cuDNN 9${name === "tensorrt" ? ", TensorRT 10" : ""} and the provider's library, with \`node node_modules/onnxruntime-node/script/install.js --onnxruntime-node-install=cuda12\`.`,
  ],
  [
    /WebGPU adapter/i,
    () =>
      "Install a Vulkan loader and a driver (Debian: libvulkan1, vulkan-tools and the GPU's driver); check them with `vulkaninfo --summary`.",
  ],
  [/requires f16/, () => 'Set its precision to "fp32".'],
];

function describeUnavailable(name: ExecutionProviderName, error: unknown): string {
  const reason = error instanceof EdgeTierError ? error.detail : reasonOf(error);
  const remedy =
    PROVIDER_REMEDIES.find(([pattern]) => pattern.test(reason))?.[1](name) ??
    "Read the server's error output, or remove the provider from the list.";
  return nativeErrors.providerUnavailable(name, reason, remedy).message;
}
