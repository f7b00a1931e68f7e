// Opens a tier on the first of the configured execution providers that works: each is tried on an input, in a session that
// has nothing else to do, and its outputs are compared with those of the same graph on the CPU. (The FP16 graph's with the
// FP16 graph's: made from a quantised one, it rounds nothing to 8 bits, and is farther from that than a provider may be from
// the CPU.) The CPU is the last one, and always works.

import { nativeErrors } from "../../runtime/native/errors.ts";
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
import type { NativeRuntime, NativeSession } from "../../runtime/native/native-runtime.ts";
import type { NodeCounts } from "../../runtime/native/node-counter.ts";
import type { NativeSessionOptions } from "../../runtime/native/session-options.ts";
import {
  disposeInBackground,
  probeSession,
  type SessionProbe,
} from "../../runtime/native/probe-session.ts";

/** What came of one configured provider, as the model's configuration shows it. */
export interface ProviderReport {
  readonly name: ExecutionProviderName;
  /** Of the graph. */
  readonly precision: FloatPrecision;
  readonly state: "used" | "skipped" | "not_tried";
  /** Why it was skipped, and what can be done about it. */
  readonly reason?: string;
  /** From the CPU's outputs, where it gave any. */
  readonly maxAbsDifference?: number;
  /** To open the session and run it once. */
  readonly openMs?: number;
  /** Of a run after the first. */
  readonly runMs?: number;
  /** How many nodes of the graph ran on which provider: what it cannot run goes to the CPU. */
  readonly nodes?: NodeCounts;
}

/** For the log and for metrics. `label` is the session's. */
export type ProviderEvent = {
  readonly event: "provider_used" | "provider_skipped";
  readonly label?: string;
} & ProviderReport;

export interface ProviderFallbackOptions {
  readonly runtime: NativeRuntime;
  readonly graphByPrecision: { readonly fp32: Uint8Array; readonly fp16?: Uint8Array | undefined };
  /** In the order of preference. */
  readonly providers: readonly ExecutionProvider[];
  /** What they are tried on. Zeros would let many a fault pass. */
  readonly trialInputs: NamedTensors;
  /** For the sessions of all providers. */
  readonly sessionOptions?: Omit<NativeSessionOptions, "provider" | "countNodes">;
  /** For one provider, from opening to its last run; TensorRT builds its engine in that time. */
  readonly trialTimeoutMs?: number;
  readonly clock?: Clock;
  readonly onEvent?: (event: ProviderEvent) => void;
}

export interface ProviderSession {
  /** Has run already. */
  readonly session: NativeSession;
  /** In the order of preference; the CPU is among them. */
  readonly providerReports: readonly ProviderReport[];
  /** A further session of the same graph on the same provider. */
  openInstance(): Promise<NativeSession>;
}

/** @throws session_failed, session_lost, invalid_tensor, provider_too_slow where even the CPU cannot run the graph on the input */
export async function openWithProviderFallback(
  options: ProviderFallbackOptions,
): Promise<ProviderSession> {
  const {
    runtime,
    graphByPrecision: graphs,
    providers,
    trialInputs: input,
    sessionOptions: shared = {},
    trialTimeoutMs: timeLimitMs = 600_000,
    clock = systemClock,
    onEvent = () => {},
  } = options;
  const cpu = providers.find(({ name }) => name === "cpu") ?? DEFAULT_EXECUTION_PROVIDER;
  const order = providers.includes(cpu) ? providers : [...providers, cpu];
  const report: ProviderReport[] = [];
  /** On the CPU, by the precision of the graph. */
  const references = new Map<FloatPrecision, SessionProbe>();

  const precisionOf = (provider: ExecutionProvider): FloatPrecision =>
    "precision" in provider && graphs.fp16 !== undefined ? provider.precision : "fp32";
  function open(
    provider: ExecutionProvider,
    precision: FloatPrecision,
    own?: NativeSessionOptions,
    end?: AbortSignal,
  ): Promise<NativeSession> {
    return runtime.createSession(
      graphs[precision] ?? graphs.fp32,
      { ...shared, ...own, provider },
      end,
    );
  }
  function tryOut(provider: ExecutionProvider, precision: FloatPrecision): Promise<SessionProbe> {
    return probeSession(
      (end) => open(provider, precision, { countNodes: provider !== cpu }, end),
      input,
      timeLimitMs,
      clock,
    );
  }
  function tell(entry: ProviderReport): void {
    report.push(entry);
    const { label } = shared;
    if (entry.state !== "not_tried")
      onEvent({
        event: `provider_${entry.state}`,
        ...(label !== undefined && { label }),
        ...entry,
      });
  }

  async function referenceFor(precision: FloatPrecision): Promise<SessionProbe> {
    const reference = references.get(precision) ?? (await tryOut(cpu, precision));
    references.set(precision, reference);
    return reference;
  }

  /** @returns the session, if it may be used */
  async function openCandidate(provider: ExecutionProvider): Promise<NativeSession | undefined> {
    const precision = precisionOf(provider);
    const entry = { name: provider.name, precision };
    try {
      const { outputs } = await referenceFor(precision);
      const trial = await tryOut(provider, precision);
      const { maxAbsDifference, problem } = compareOutputs(outputs, trial.outputs);
      const reason = runsNoNodes(provider.name, trial)
        ? "none of the graph's nodes runs on it"
        : problem;
      tell({
        ...entry,
        ...(reason === undefined ? { state: "used" } : { state: "skipped", reason }),
        maxAbsDifference,
        ...timingsOf(trial),
      });
      if (reason === undefined) return trial.session;
      disposeInBackground(trial.session);
    } catch (error) {
      tell({ ...entry, state: "skipped", reason: describeUnavailable(provider.name, error) });
    }
    return undefined;
  }

  async function openOnCpu(): Promise<NativeSession> {
    const trial = await referenceFor("fp32");
    tell({ name: "cpu", precision: "fp32", state: "used", ...timingsOf(trial) });
    return trial.session;
  }

  async function openFirst(): Promise<{
    readonly provider: ExecutionProvider;
    readonly session: NativeSession;
  }> {
    for (const provider of order.slice(0, order.indexOf(cpu))) {
      const session = await openCandidate(provider);
      if (session !== undefined) return { provider, session };
    }
    return { provider: cpu, session: await openOnCpu() };
  }

  let session: NativeSession | undefined;
  try {
    const used = await openFirst();
    session = used.session;
    for (const provider of order.slice(order.indexOf(used.provider) + 1))
      tell({ name: provider.name, precision: precisionOf(provider), state: "not_tried" });
    return {
      session,
      providerReports: report,
      openInstance: () => open(used.provider, precisionOf(used.provider)),
    };
  } finally {
    for (const reference of references.values())
      if (reference.session !== session) await reference.session.dispose();
  }
}

const timingsOf = ({ openMs, runMs, session: { nodes } }: SessionProbe) => ({
  openMs,
  runMs,
  ...(nodes && { nodes }),
});

const runsNoNodes = (name: ExecutionProviderName, { session: { nodes } }: SessionProbe): boolean =>
  nodes !== undefined && nodes[name] === undefined;

/** By what ONNX Runtime says. */
const PROVIDER_REMEDIES: readonly (readonly [
  says: RegExp,
  remedy: (name: ExecutionProviderName) => string,
])[] = [
  [
    /load shared library/i,
    (name) =>
      `It needs NVIDIA's driver, CUDA 12, cuDNN 9${name === "tensorrt" ? ", TensorRT 10" : ""} and the provider's library, which \`node node_modules/onnxruntime-node/script/install.js --onnxruntime-node-install=cuda12\` installs.`,
  ],
  [
    /WebGPU adapter/i,
    () =>
      "It needs a Vulkan loader and a driver: `vulkaninfo --summary` lists what there is (Debian: libvulkan1, vulkan-tools and the GPU's driver).",
  ],
  [/requires f16/, () => 'Set its precision to "fp32".'],
];

function describeUnavailable(name: ExecutionProviderName, error: unknown): string {
  const reason = error instanceof EdgeTierError ? error.detail : reasonOf(error);
  const remedy =
    PROVIDER_REMEDIES.find(([says]) => says.test(reason))?.[1](name) ??
    "The server's error output may tell more; take it off the list if it is not to be had.";
  return nativeErrors.providerUnavailable(name, reason, remedy).message;
}
