// Harness Worker: opens graphs in the full engine and runs them on demand. Edge candidates are thus evaluated in the runtime
// that will serve them. The Worker is bundled and run by workerd-runner.ts.

import fullWasm from "sandbox:full.wasm";
import glue from "sandbox:glue.mjs";
import jpeg from "sandbox:jpeg.wasm";
import png from "sandbox:png.wasm";
import { decodePredictions } from "../../../cascade/calibration.ts";
import { coreErrors } from "../../../core/common-errors.ts";
import { asEdgeTierError } from "../../../core/errors.ts";
import type { Session } from "../../../runtime/runtime.ts";
import { createWasmRuntime } from "../../../runtime/wasm/wasm-runtime.ts";
import { createImageDecoder } from "../../../tasks/image/image-decoder.ts";
import type { InputLimits, PreprocessorConfig } from "../../../tasks/task.ts";
import { getTask } from "../../../tasks/tasks.ts";
import {
  encodeFrame,
  packTensors,
  decodeFrame,
  unpackTensors,
} from "../../engine/sandbox/messages.ts";
import type { OpenedSession, RepeatResult, HarnessJob } from "./messages.ts";

/** Silences ONNX Runtime, which logs graphs that fail to open. */
console.error = () => {};

type Binaries = readonly Uint8Array<ArrayBuffer>[];
type HarnessJobOfKind<Kind extends HarnessJob["kind"]> = Extract<HarnessJob, { kind: Kind }>;

/** Memory that a Worker can spare for decoding; a deployment's edgetier.imageMemoryBytes is lower. */
const IMAGE_MEMORY_BYTES = 67_108_864;

const imageDecoder = createImageDecoder({
  modules: { jpeg, png },
  maxMemoryBytes: IMAGE_MEMORY_BYTES,
});
const sessions = new Map<number, Session>();
let lastSessionId = 0;

async function open([graph = new Uint8Array()]: Binaries, source: string) {
  const session = await createWasmRuntime({
    kind: "full",
    wasm: fullWasm,
    glue,
    source,
  }).createSession(graph);
  sessions.set(++lastSessionId, session);
  const { inputs, outputs } = session;
  return encodeFrame({ sessionId: lastSessionId, inputs, outputs } satisfies OpenedSession, []);
}

function requireSession(sessionId: number): Session {
  const session = sessions.get(sessionId);
  if (session === undefined)
    throw coreErrors.sessionFailed(`the harness has no session ${sessionId}`);
  return session;
}

async function run({ sessionId, inputs }: HarnessJobOfKind<"run">, binaries: Binaries) {
  const outputBinaries: Uint8Array[] = [];
  const outputs = await requireSession(sessionId).run(unpackTensors(inputs, binaries));
  const [packed] = packTensors([outputs], outputBinaries);
  return encodeFrame(packed, outputBinaries);
}

async function repeat({ sessionId, inputs, runs }: HarnessJobOfKind<"repeat">, binaries: Binaries) {
  const session = requireSession(sessionId);
  const tensors = unpackTensors(inputs, binaries);
  for (let left = runs; left > 0; left--) await session.run(tensors);
  return encodeFrame({ memoryBytes: session.memoryBytes } satisfies RepeatResult, []);
}

async function preprocess(
  { task: taskName, preprocessor, hasArtifact, limits, runs }: HarnessJobOfKind<"preprocess">,
  binaries: Binaries,
) {
  const task = getTask(taskName);
  const [first = new Uint8Array(), last = first] = binaries;
  const { encode } = task.createPreprocessor(
    { ...preprocessor, ...(hasArtifact ? { artifact: first } : {}) } as PreprocessorConfig,
    { imageDecoder },
  );
  const bytes = hasArtifact ? last : first;
  for (let left = runs; left > 0; left--)
    encode([task.decodeInput(bytes, 0, limits as InputLimits)]);
  return encodeFrame(null, []);
}

function postprocess(
  { outputs, labels, calibration, runs }: HarnessJobOfKind<"postprocess">,
  binaries: Binaries,
) {
  const tensors = unpackTensors(outputs, binaries);
  for (let left = runs; left > 0; left--)
    decodePredictions(tensors, 1, labels, calibration, labels.length);
  return encodeFrame(null, []);
}

async function close({ sessionId }: HarnessJobOfKind<"close">) {
  await requireSession(sessionId).dispose();
  sessions.delete(sessionId);
  return encodeFrame(null, []);
}

async function handleJob(
  job: HarnessJob,
  binaries: Binaries,
  source: string,
): Promise<Uint8Array<ArrayBuffer>> {
  switch (job.kind) {
    case "open":
      return await open(binaries, source);
    case "run":
      return await run(job, binaries);
    case "repeat":
      return await repeat(job, binaries);
    case "preprocess":
      return await preprocess(job, binaries);
    case "postprocess":
      return postprocess(job, binaries);
    case "close":
      return await close(job);
  }
}

export default {
  async fetch(request: Request, { SOURCE }: { readonly SOURCE: string }): Promise<Response> {
    const { value: job, binaries } = decodeFrame<HarnessJob>(await request.arrayBuffer());
    try {
      return new Response(await handleJob(job, binaries, SOURCE));
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
