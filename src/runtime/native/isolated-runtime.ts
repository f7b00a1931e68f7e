// The native runtime with a worker for each session: a process or a thread.
//
// onnxruntime-node runs a graph on the thread that asks for it. On a server's own thread that holds up everything else:
// while runs follow each other, Node accepts one connection a run (measured), and health checks wait as well.
// What a session has leaked goes with its process (microsoft/onnxruntime, issue 25325), and a crash in it ends nothing else.

import { coreErrors } from "../../core/common-errors.ts";
import { systemClock, type Clock } from "../../core/clock.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import type { StartWorker } from "./worker-messages.ts";
import { createNativeRuntime, type NativeRuntime } from "./native-runtime.ts";
import { startProcessWorker } from "./process-worker.ts";
import {
  DEFAULT_RESTART_POLICY,
  superviseSession,
  type RestartPolicy,
  type WorkerEvent,
} from "./supervised-session.ts";
import { mergeSessionOptions, type NativeSessionOptions } from "./session-options.ts";
import { startThreadWorker } from "./thread-worker.ts";
import { openWorkerSession } from "./worker-session.ts";

/** `none`: in the thread that asks. */
export const ISOLATIONS = ["process", "thread", "none"] as const;
export type Isolation = (typeof ISOLATIONS)[number];

export interface IsolatedRuntimeOptions {
  /** For sessions that say nothing else. */
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
  const {
    session: defaults,
    clock = systemClock,
    restartPolicy: replacement,
    onEvent = () => {},
  } = options;
  return {
    name,
    async createSession(model, sessionOptions, end) {
      const merged = mergeSessionOptions(sessionOptions, defaults);
      const { label } = merged;
      const tell = (event: WorkerEvent) =>
        onEvent({ ...event, ...(label !== undefined && { label }) });
      async function open() {
        const startedAtMs = clock.now();
        const worker = await openWorkerSession(startWorker, model, merged, end);
        tell({
          event: "session_worker_started",
          pid: worker.pid,
          memoryBytes: worker.memoryBytes,
          durationMs: clock.now() - startedAtMs,
        });
        return worker;
      }
      try {
        const policy = { ...DEFAULT_RESTART_POLICY, ...replacement };
        // The model is kept: it opens the session again.
        return superviseSession(await open(), {
          open,
          modelBytes: model.byteLength,
          policy,
          clock,
          onEvent: tell,
          signal: end,
        });
      } catch (error) {
        throw error instanceof EdgeTierError
          ? error
          : coreErrors.sessionFailed(reasonOf(error), error);
      }
    },
  };
}
