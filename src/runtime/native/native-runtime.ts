// The Runtime over onnxruntime-node, and its driver in the calling thread: for offline tools, and within a session's worker.

import { coreErrors } from "../../core/common-errors.ts";
import { env, InferenceSession } from "onnxruntime-node";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import { validateInputs } from "../validate-inputs.ts";
import { createSerialQueue } from "../serial-queue.ts";
import type { Runtime, Session } from "../runtime.ts";
import type { NodeCounter, NodeCounts } from "./node-counter.ts";
import { fromOrtTensor, toOrtTensor, toTensorSpec } from "./ort-tensors.ts";
import { mergeSessionOptions, toOrtOptions, type NativeSessionOptions } from "./session-options.ts";

// What fails before a session has options of its own is thrown as well: once is enough.
env.logLevel = "fatal";

export interface NativeSession extends Session {
  /** After the first run of a session that counts its nodes, where they could be counted. */
  readonly nodes: NodeCounts | undefined;
}

export interface NativeRuntime extends Runtime {
  /**
   * @param options go before the runtime's own
   * @param end ends the session at once when aborted, even while it opens or runs, if it has a worker; without one it waits
   * @throws session_failed if the bytes are not a model, or the provider is not to be had
   */
  createSession(
    model: Uint8Array,
    options?: NativeSessionOptions,
    end?: AbortSignal,
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
          : undefined; // seldom wanted
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

/** @param memoryBytes at least what it holds: ONNX Runtime does not tell */
function createNativeSession(
  session: InferenceSession,
  memoryBytes: number,
  counter: NodeCounter | undefined,
): NativeSession {
  const inputs = session.inputMetadata.map(toTensorSpec);
  const outputs = session.outputMetadata.map(toTensorSpec);
  // ONNX Runtime allows no overlapping runs of one JavaScript session.
  const inTurn = createSerialQueue();
  let disposal: Promise<void> | undefined;
  let uncounted = counter;
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
      return await inTurn(async () => {
        try {
          const results = await session.run(feeds);
          nodes ??= uncounted?.finish(session);
          uncounted = undefined;
          // The binding hands out buffers of their own, so they need no further copy.
          return Object.fromEntries(
            Object.entries(results).map(([name, tensor]) => [name, fromOrtTensor(name, tensor)]),
          );
        } catch (error) {
          throw toSessionError(error);
        }
      });
    },

    async dispose() {
      disposal ??= inTurn(async () => {
        await session.release();
        uncounted?.discard();
      });
      await disposal;
    },
  };
}

const toSessionError = (error: unknown) =>
  error instanceof EdgeTierError
    ? error
    : coreErrors.sessionFailed(reasonOf(error).trim().replace(/\.$/, ""), error);
