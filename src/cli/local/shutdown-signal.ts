// When a person or a supervisor wants this process to stop: signals, or the end of the npm process that started it.

const PARENT_CHECK_INTERVAL_MS = 500;

export interface ShutdownSignal {
  /** Resolves with what asked for the stop. */
  readonly reason: Promise<string>;
  /** Aborted at the same time. */
  readonly signal: AbortSignal;
}

export function createShutdownSignal(): ShutdownSignal {
  const controller = new AbortController();
  const requested = new Promise<string>((resolve) => {
    const request = (reason: string) => {
      controller.abort(reason);
      resolve(reason);
    };
    // The handlers stay: a second Ctrl-C must not kill this process before its parts have stopped.
    process.on("SIGINT", () => request("SIGINT"));
    process.on("SIGTERM", () => request("SIGTERM"));
    // A closed terminal; with nohup, stdout is no terminal and the system shall go on.
    process.on("SIGHUP", () => process.stdout.isTTY && request("SIGHUP"));
    removeOtherHandlers();
    if (process.env["npm_lifecycle_event"] !== undefined) onParentExit(() => request("npm ended"));
  });
  return { reason: requested, signal: controller.signal };
}

/** Miniflare's own handlers would end this process at once, before the other parts have stopped. */
function removeOtherHandlers(): void {
  process.on("newListener", (event: string, listener: NodeJS.SignalsListener) => {
    if (["SIGINT", "SIGTERM", "SIGHUP"].includes(event))
      queueMicrotask(() => process.off(event, listener));
  });
}

/** npm passes a signal on to its shell, which may die of it without telling this process. */
function onParentExit(callback: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    callback();
  }, PARENT_CHECK_INTERVAL_MS);
  timer.unref();
}
