// Isolated runtime: runs each session of the native runtime in its own worker, a process or a thread.
//
// onnxruntime-node runs a graph on the calling thread. On a server's main thread, a run blocks everything else. During
// back-to-back runs, Node accepts one connection per run (measured), and health checks wait too. With a process, leaks
// of a session end with it (microsoft/onnxruntime, issue 25325), and a crash does not affect the server.

import { systemClock, type Clock } from "../../core/clock.ts";
import { coreErrors } from "../../core/common-errors.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import { createNativeRuntime, type NativeRuntime } from "./native-runtime.ts";
import { startProcessWorker } from "./process-worker.ts";
import { mergeSessionOptions, type NativeSessionOptions } from "./session-options.ts";
import {
  DEFAULT_RESTART_POLICY,
  superviseSession,
  type RestartPolicy,
  type WorkerEvent,
} from "./supervised-session.ts";
import { startThreadWorker } from "./thread-worker.ts";
import type { StartWorker } from "./worker-messages.ts";
import { openWorkerSession } from "./worker-session.ts";

/** Isolation of a session; `none` runs it on the calling thread. */
export const ISOLATIONS = ["process", "thread", "none"] as const;
export type Isolation = (typeof ISOLATIONS)[number];

export interface IsolatedRuntimeOptions {
  /** Default options of sessions. */
  readonly session?: NativeSessionOptions;
  readonly clock?: Clock;
  readonly restartPolicy?: Partial<RestartPolicy>;
  readonly onEvent?: (event: WorkerEvent) => void;
}

export function createIsolatedRuntime(
  isolation: Isolation,
  options: IsolatedRuntimeOptions = {},
): NativeRuntime {
  if (isolation === "none") return createNativeRuntime(options.session);
  return createWorkerRuntime(
    isolation === "process" ? startProcessWorker : startThreadWorker,
    `onnxruntime-node, a ${isolation} for each session`,
    options,
  );
}

export function createWorkerRuntime(
  startWorker: StartWorker,
  name: string,
  options: IsolatedRuntimeOptions = {},
): NativeRuntime {
  const { session: defaults, clock = systemClock, restartPolicy, onEvent = () => {} } = options;
  return {
    name,
    async createSession(model, sessionOptions, signal) {
      const merged = mergeSessionOptions(sessionOptions, defaults);
      const { label } = merged;
      const emit = (event: WorkerEvent) =>
        onEvent({ ...event, ...(label !== undefined && { label }) });
      async function open() {
        const startedAtMs = clock.now();
        const worker = await openWorkerSession(startWorker, model, merged, signal);
        emit({
          event: "session_worker_started",
          pid: worker.pid,
          memoryBytes: worker.memoryBytes,
          durationMs: clock.now() - startedAtMs,
        });
        return worker;
      }
      try {
        const policy = { ...DEFAULT_RESTART_POLICY, ...restartPolicy };
        // The closure of `open` keeps the model in memory for restarts.
        return superviseSession(await open(), {
          open,
          modelBytes: model.byteLength,
          policy,
          clock,
          onEvent: emit,
          signal,
        });
      } catch (error) {
        throw error instanceof EdgeTierError
          ? error
          : coreErrors.sessionFailed(reasonOf(error), error);
      }
    },
  };
}
