// Sandbox Worker: takes snapshots, profiles engines and validates them, all in the runtime that will serve. sandbox.ts
// bundles and runs it.

import derivedWasm from "sandbox:derived.wasm";
import fullWasm from "sandbox:full.wasm";
import glue from "sandbox:glue.mjs";
import { asEdgeTierError, EdgeTierError } from "../../../core/errors.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { Session } from "../../../runtime/runtime.ts";
import { createBytesSource } from "../../../runtime/wasm/byte-source.ts";
import { type EngineModule, PAGE_BYTES, startEngine } from "../../../runtime/wasm/engine.ts";
import { openSession } from "../../../runtime/wasm/open-session.ts";
import { restoreEngineInstance, restoreSnapshot } from "../../../runtime/wasm/restore-snapshot.ts";
import { encodeSnapshot } from "../../../runtime/wasm/snapshot-format.ts";
import { areIdenticalTensors, takeSnapshot } from "../../../runtime/wasm/take-snapshot.ts";
import type { StrippedFunction } from "../../../runtime/wasm/traps.ts";
import { createWasmSession } from "../../../runtime/wasm/wasm-session.ts";
import { ENTRY_FLAGS_OFFSET, globalExportName } from "../instrument-functions.ts";
import {
  type SandboxJob,
  encodeFrame,
  type EngineProfile,
  decodeFrame,
  unpackTensors,
  type EngineValidation,
} from "./messages.ts";

/** Silences ONNX Runtime, which logs the inputs that fail on purpose. */
console.error = () => {};

interface Environment {
  /** SHA-256 of the full engine. */
  readonly SOURCE: string;
}
type Binaries = readonly Uint8Array<ArrayBuffer>[];
type JobOfKind<Kind extends SandboxJob["kind"]> = Extract<SandboxJob, { kind: Kind }>;

const fullEngine = (source: string): EngineModule => ({
  kind: "full",
  wasm: fullWasm,
  glue,
  source,
});

/**
 * Gives the same varied times in each run. ONNX Runtime logs the time of failing inputs, and the functions that format it
 * depend on its digits.
 */
function createDeterministicClock(): () => number {
  let nowMs = Date.UTC(2026, 0, 31, 23, 59, 58);
  return () => (nowMs += 137);
}

async function handleSnapshotJob(
  { modelSha256, inputs }: JobOfKind<"snapshot">,
  binaries: Binaries,
  source: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const [model = new Uint8Array()] = binaries;
  const snapshot = await takeSnapshot(
    fullEngine(source),
    model,
    modelSha256,
    inputs.map((packed) => unpackTensors(packed, binaries)),
  );
  const { bytes, head } = await encodeSnapshot(snapshot);
  return encodeFrame(head, [bytes]);
}

/** Restores into the instrumented engine, so that only functions that run from a snapshot are recorded. */
async function handleProfileJob(
  { modelSha256, head, inputs }: JobOfKind<"profile">,
  binaries: Binaries,
  source: string,
): Promise<EngineProfile> {
  const [snapshot = new Uint8Array()] = binaries;
  const recorder = createStartRecorder();
  const module: EngineModule = { kind: "full", wasm: derivedWasm, glue: recorder.glue, source };
  const { engine, opened } = await restoreEngineInstance(
    module,
    createBytesSource(snapshot),
    head,
    modelSha256,
    {
      initialPages: ENTRY_FLAGS_OFFSET / PAGE_BYTES + 1,
      now: createDeterministicClock(),
    },
  );
  const { exports, startExports } = recorder.finish();
  const flags = new Uint8Array(engine.memory.buffer, ENTRY_FLAGS_OFFSET, PAGE_BYTES);
  flags.fill(0);
  const session = createWasmSession(engine, opened);
  for (const packed of inputs) await captureOutcome(session, unpackTensors(packed, binaries));
  await session.dispose();
  const globals = Object.keys(exports).filter(
    (name) => exports[name] instanceof WebAssembly.Global,
  );
  return {
    entered: [...flags.entries()].flatMap(([number, entered]) => (entered === 1 ? [number] : [])),
    globals: globals.map(
      (_, index) => (exports[globalExportName(index)] as WebAssembly.Global).value as number,
    ),
    startExports,
  };
}

/** Wraps the glue to record which exported functions it calls on its own until `finish`. */
function createStartRecorder(): {
  readonly glue: EngineModule["glue"];
  finish(): { readonly exports: WebAssembly.Exports; readonly startExports: string[] };
} {
  const startExports = new Set<string>();
  let exports: WebAssembly.Exports = {};
  let depth = 0;
  let isStarting = true;
  const record =
    (name: string, call: (...parameters: unknown[]) => unknown) =>
    (...parameters: unknown[]) => {
      if (isStarting && depth === 0) startExports.add(name);
      depth++;
      try {
        return call(...parameters);
      } finally {
        depth--;
      }
    };
  return {
    glue: (options) =>
      glue({
        ...options,
        instantiateWasm: (imports, onInstance) =>
          options.instantiateWasm(imports, (instance) => {
            ({ exports } = instance);
            const recorded = Object.entries(exports).map(([name, value]) => [
              name,
              typeof value === "function" ? record(name, value as () => unknown) : value,
            ]);
            onInstance({ exports: Object.fromEntries(recorded) });
          }),
      }),
    finish() {
      isStarting = false;
      return { exports, startExports: [...startExports] };
    },
  };
}

/** Compares the stripped engine, restored from the snapshot, with the full engine, which opens the model itself. */
async function handleValidationJob(
  { modelSha256, head, inputs }: JobOfKind<"validate">,
  binaries: Binaries,
  source: string,
): Promise<EngineValidation> {
  const [snapshot = new Uint8Array(), model = new Uint8Array()] = binaries;
  const full = await startEngine(fullEngine(source));
  const expected = createWasmSession(full, openSession(full, model));
  const strippedEngine: EngineModule = {
    kind: "cut",
    functions: "",
    wasm: derivedWasm,
    glue,
    source,
  };
  const restoreSession = () =>
    restoreSnapshot(strippedEngine, createBytesSource(snapshot), head, modelSha256);
  const missingFunctions: StrippedFunction[] = [];
  let differentCount = 0;
  let session = await restoreSession();
  for (const packed of inputs) {
    const tensors = unpackTensors(packed, binaries);
    const expectedOutcome = await captureOutcome(expected, tensors);
    const outcome = await captureOutcome(session, tensors);
    if (outcome.kind === "missing-function") missingFunctions.push(outcome.missing);
    if (isSameOutcome(expectedOutcome, outcome)) continue;
    differentCount++;
    session = await restoreSession();
  }
  return { inputCount: inputs.length, differentCount, missingFunctions };
}

type RunOutcome =
  | { readonly kind: "outputs"; readonly outputs: NamedTensors }
  | { readonly kind: "error"; readonly detail: string }
  | { readonly kind: "missing-function"; readonly missing: StrippedFunction };

async function captureOutcome(session: Session, tensors: NamedTensors): Promise<RunOutcome> {
  try {
    return { kind: "outputs", outputs: await session.run(tensors) };
  } catch (error) {
    if (!(error instanceof EdgeTierError)) throw error;
    return error.code === "function_cut"
      ? { kind: "missing-function", missing: error.facts as unknown as StrippedFunction }
      : { kind: "error", detail: error.detail };
  }
}

function isSameOutcome(expected: RunOutcome, actual: RunOutcome): boolean {
  if (expected.kind === "outputs" && actual.kind === "outputs")
    return areIdenticalTensors(expected.outputs, actual.outputs);
  return expected.kind === "error" && actual.kind === "error" && expected.detail === actual.detail;
}

export default {
  async fetch(request: Request, { SOURCE }: Environment): Promise<Response> {
    const { value: job, binaries } = decodeFrame<SandboxJob>(await request.arrayBuffer());
    try {
      if (job.kind === "snapshot")
        return new Response(await handleSnapshotJob(job, binaries, SOURCE));
      return new Response(
        encodeFrame(
          job.kind === "profile"
            ? await handleProfileJob(job, binaries, SOURCE)
            : await handleValidationJob(job, binaries, SOURCE),
          [],
        ),
      );
    } catch (thrown) {
      const { code, status, detail, remedy } = asEdgeTierError(thrown);
      return Response.json(
        {
          code,
          status,
          detail: code === "internal" ? `${detail} ${String(thrown)}` : detail,
          remedy,
        },
        { status: 500 },
      );
    }
  },
};
