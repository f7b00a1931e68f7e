// Shutdown signal: aborts on a process signal, or when the npm process that started this one ends.

const PARENT_CHECK_INTERVAL_MS = 500;

export interface ShutdownSignal {
  /** Resolves with the cause of the shutdown, for example `SIGINT`. */
  readonly reason: Promise<string>;
  /** Aborts at the same time, with the same reason. */
  readonly signal: AbortSignal;
}

export function createShutdownSignal(): ShutdownSignal {
  const controller = new AbortController();
  const reason = new Promise<string>((resolve) => {
    const request = (cause: string) => {
      controller.abort(cause);
      resolve(cause);
    };
    // The handlers stay, because a second Ctrl-C must not kill this process before its services have stopped.
    process.on("SIGINT", () => request("SIGINT"));
    process.on("SIGTERM", () => request("SIGTERM"));
    // SIGHUP means a closed terminal. With nohup, stdout is not a terminal and the system continues.
    process.on("SIGHUP", () => process.stdout.isTTY && request("SIGHUP"));
    removeOtherHandlers();
    if (process.env["npm_lifecycle_event"] !== undefined) onParentExit(() => request("npm ended"));
  });
  return { reason, signal: controller.signal };
}

/** Removes Miniflare's handlers, which would end this process before the other services have stopped. */
function removeOtherHandlers(): void {
  process.on("newListener", (event: string, listener: NodeJS.SignalsListener) => {
    if (["SIGINT", "SIGTERM", "SIGHUP"].includes(event))
      queueMicrotask(() => process.off(event, listener));
  });
}

/** Detects npm's end. npm forwards a signal to its shell, which may die without forwarding it to this process. */
function onParentExit(callback: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    callback();
  }, PARENT_CHECK_INTERVAL_MS);
  timer.unref();
}
