// Abort scope: combines a timer and the caller's signal into one signal, as AbortSignal.any does where it exists.

import type { Clock } from "../core/clock.ts";
import { clientError } from "./errors.ts";

export interface AbortScope {
  readonly signal: AbortSignal;
  /** @throws the reason of the abort */
  throwIfAborted(): void;
  /** @throws the reason of an abort during the delay */
  sleep(delayMs: number): Promise<void>;
  end(): void;
}

export function createAbortScope(
  clock: Clock,
  limitMs: number,
  callerSignal: AbortSignal | undefined,
): AbortScope {
  const controller = new AbortController();
  // React Native's signals have no reason, so the scope stores it.
  let reason: unknown;
  let wake = () => {};
  const abort = (abortReason: unknown) => {
    reason ??= abortReason;
    controller.abort(abortReason);
    wake();
  };
  const abortByCaller = () => abort(callerSignal?.reason ?? abortedError());
  const stopTimer = clock.setTimer(
    () =>
      abort(
        clientError(
          "timeout",
          `No response arrived within ${Math.round(limitMs)} ms.`,
          "Allow more time, or check the network.",
        ),
      ),
    limitMs,
  );
  if (callerSignal?.aborted === true) abortByCaller();
  callerSignal?.addEventListener("abort", abortByCaller);

  const throwIfAborted = (): void => {
    if (reason !== undefined) throw reason;
  };
  return {
    signal: controller.signal,
    throwIfAborted,
    async sleep(delayMs) {
      let stopSleeping = () => {};
      await new Promise<void>((resolve) => {
        wake = resolve;
        stopSleeping = clock.setTimer(resolve, delayMs);
      });
      stopSleeping();
      throwIfAborted();
    },
    end() {
      stopTimer();
      callerSignal?.removeEventListener("abort", abortByCaller);
    },
  };
}

/** Reason for a signal that has none, as in React Native. */
export const abortedError = () => clientError("aborted", "The caller canceled the request.", "");
