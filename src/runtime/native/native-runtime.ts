// Runtime over onnxruntime-node on the calling thread, for offline tools and inside a session's worker.

import { env, InferenceSession } from "onnxruntime-node";
import { coreErrors } from "../../core/common-errors.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import type { Runtime, Session } from "../runtime.ts";
import { createSerialQueue } from "../serial-queue.ts";
import { validateInputs } from "../validate-inputs.ts";
import type { NodeCounter, NodeCounts } from "./node-counter.ts";
import { fromOrtTensor, toOrtTensor, toTensorSpec } from "./ort-tensors.ts";
import { mergeSessionOptions, toOrtOptions, type NativeSessionOptions } from "./session-options.ts";

// ONNX Runtime also throws its early errors, so logging them would duplicate them.
env.logLevel = "fatal";

export interface NativeSession extends Session {
  /** Node counts after the first run, if the session counts nodes and the count succeeded. */
  readonly nodes: NodeCounts | undefined;
}

export interface NativeRuntime extends Runtime {
  /**
   * @param options override the runtime's defaults
   * @param signal ends a session with a worker immediately on abort, even while it opens or runs; others ignore it
   * @throws session_failed if the bytes are not a model, or the provider is unavailable
   */
  createSession(
    model: Uint8Array,
    options?: NativeSessionOptions,
    signal?: AbortSignal,
  ): Promise<NativeSession>;
}

export function createNativeRuntime(defaults: NativeSessionOptions = {}): NativeRuntime {
  return {
    name: "onnxruntime-node",
    async createSession(model, options) {
      const merged = mergeSessionOptions(options, defaults);
      const counter =
        merged.countNodes === true
          ? (await import("./node-counter.ts")).createNodeCounter()
          : undefined; // imported on demand, because it is rarely used
      try {
        const session = await InferenceSession.create(model, {
          ...toOrtOptions(merged),
          ...counter?.sessionOptions,
        });
        return createNativeSession(session, model.byteLength, counter);
      } catch (error) {
        counter?.discard();
        throw toSessionError(error);
      }
    },
  };
}

/** @param memoryBytes lower bound of the session's memory, because ONNX Runtime does not report it */
function createNativeSession(
  session: InferenceSession,
  memoryBytes: number,
  counter: NodeCounter | undefined,
): NativeSession {
  const inputs = session.inputMetadata.map(toTensorSpec);
  const outputs = session.outputMetadata.map(toTensorSpec);
  // ONNX Runtime forbids overlapping runs of one JavaScript session.
  const enqueue = createSerialQueue();
  let disposal: Promise<void> | undefined;
  let pendingCounter = counter;
  let nodes: NodeCounts | undefined;

  return {
    inputs,
    outputs,
    memoryBytes,
    get nodes() {
      return nodes;
    },

    async run(tensors) {
      validateInputs(inputs, tensors);
      if (disposal !== undefined)
        throw coreErrors.sessionFailed("the session has been disposed of");
      const feeds = Object.fromEntries(
        Object.entries(tensors).map(([name, tensor]) => [name, toOrtTensor(name, tensor)]),
      );
      return await enqueue(async () => {
        try {
          const results = await session.run(feeds);
          nodes ??= pendingCounter?.finish(session);
          pendingCounter = undefined;
          // The binding returns separate buffers, so outputs need no copy.
          return Object.fromEntries(
            Object.entries(results).map(([name, tensor]) => [name, fromOrtTensor(name, tensor)]),
          );
        } catch (error) {
          throw toSessionError(error);
        }
      });
    },

    async dispose() {
      disposal ??= enqueue(async () => {
        await session.release();
        pendingCounter?.discard();
      });
      await disposal;
    },
  };
}

const toSessionError = (error: unknown) =>
  error instanceof EdgeTierError
    ? error
    : coreErrors.sessionFailed(reasonOf(error).trim().replace(/\.$/, ""), error);
