// The Runtime over onnxruntime-node, for region servers. The CPU provider by default; others are named in the options.

import { InferenceSession } from "onnxruntime-node";
import { EdgeTierError, errors, reasonOf } from "../../core/errors.ts";
import { checkInputs } from "../check-inputs.ts";
import { createInTurn } from "../in-turn.ts";
import type { Runtime, Session } from "../runtime.ts";
import { fromOrt, toOrt, toSpec } from "./ort-tensors.ts";

export interface NativeRuntimeOptions {
  /** Threads that one operator may use; 0 leaves it to ONNX Runtime (one per physical core). */
  readonly intraOpThreads?: number;
  /** Tried in this order; operators that the first cannot run fall to the next, and to the CPU at the end. */
  readonly executionProviders?: readonly InferenceSession.ExecutionProviderConfig[];
}

/** Only fatal messages: failures come as exceptions, and are logged once, by who handles them. */
const LOG_FATAL = 4;
/** A folder that is not there: a model may not read weights from files, which ONNX would let it name by path. */
const NO_FOLDER = "/nonexistent/edgetier";

export function createNativeRuntime(options: NativeRuntimeOptions = {}): Runtime {
  const { intraOpThreads = 0, executionProviders = ["cpu"] } = options;
  const sessionOptions: InferenceSession.SessionOptions = {
    executionProviders,
    intraOpNumThreads: intraOpThreads,
    logSeverityLevel: LOG_FATAL,
    extra: {
      session: {
        model_external_initializers_file_folder_path: NO_FOLDER,
        // ONNX Runtime's threads would wait for the next run by turning over, at the cost of every other thread: at 100
        // requests a second on 2 cores, p99 was 11.5 ms with it and 6.6 ms without (measured).
        intra_op: { allow_spinning: "0" },
      },
    },
  };

  return {
    name: "onnxruntime-node",
    async createSession(model) {
      try {
        return nativeSession(await InferenceSession.create(model, sessionOptions));
      } catch (error) {
        throw failed(error);
      }
    },
  };
}

function nativeSession(session: InferenceSession): Session {
  const inputs = session.inputMetadata.map(toSpec);
  const outputs = session.outputMetadata.map(toSpec);
  // ONNX Runtime allows no overlapping runs of one JavaScript session.
  const inTurn = createInTurn();
  let disposal: Promise<void> | undefined;

  return {
    inputs,
    outputs,
    memoryBytes: 0,

    async run(tensors) {
      checkInputs(inputs, tensors);
      if (disposal !== undefined) throw errors.sessionFailed("the session has been disposed of");
      const feeds = Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, toOrt(name, tensor)]));
      return await inTurn(async () => {
        try {
          const results = await session.run(feeds);
          // The binding hands out buffers of their own, so they need no further copy.
          return Object.fromEntries(Object.entries(results).map(([name, tensor]) => [name, fromOrt(name, tensor)]));
        } catch (error) {
          throw failed(error);
        }
      });
    },

    async dispose() {
      disposal ??= inTurn(() => session.release());
      await disposal;
    },
  };
}

const failed = (error: unknown) => (error instanceof EdgeTierError ? error : errors.sessionFailed(reasonOf(error).trim().replace(/\.$/, ""), error));
