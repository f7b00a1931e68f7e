// Probes a session: opens it and runs it twice on an input, within a time limit.

import type { Clock } from "../../core/clock.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { nativeErrors } from "./errors.ts";
import type { NativeSession } from "./native-runtime.ts";

export interface SessionProbe {
  /** Open session, which the caller owns. */
  readonly session: NativeSession;
  readonly outputs: NamedTensors;
  /** Time to open the session and to run it once. */
  readonly openMs: number;
  /** Time of the second run. */
  readonly runMs: number;
}

/**
 * @param open opens the session; its signal is aborted at the time limit, after which nothing awaits it
 * @throws provider_too_slow, and the errors of `open` and of the session
 */
export async function probeSession(
  open: (signal: AbortSignal) => Promise<NativeSession>,
  input: NamedTensors,
  limitMs: number,
  clock: Clock,
): Promise<SessionProbe> {
  const controller = new AbortController();
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const cancel = clock.setTimer(() => {
    reject(nativeErrors.providerTooSlow(limitMs));
    controller.abort();
  }, limitMs);
  const trial = openAndRun(() => open(controller.signal), input);
  try {
    return await Promise.race([trial, timeout]);
  } catch (error) {
    void trial.then(
      ({ session }) => disposeInBackground(session),
      () => {},
    );
    throw error;
  } finally {
    cancel();
  }
}

async function openAndRun(
  open: () => Promise<NativeSession>,
  input: NamedTensors,
): Promise<SessionProbe> {
  const startedAtMs = performance.now();
  const session = await open();
  try {
    await session.run(input);
    const openedAtMs = performance.now();
    const outputs = await session.run(input);
    return {
      session,
      outputs,
      openMs: roundMs(openedAtMs - startedAtMs),
      runMs: roundMs(performance.now() - openedAtMs),
    };
  } catch (error) {
    disposeInBackground(session);
    throw error;
  }
}

/** Disposes of a session without waiting, because it may hang. */
export function disposeInBackground(session: NativeSession): void {
  session.dispose().catch(() => {});
}

const roundMs = (milliseconds: number): number => Math.round(milliseconds * 100) / 100;
