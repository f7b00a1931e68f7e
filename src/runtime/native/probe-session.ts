// Tries a session out: opens it, runs it twice on an input, and breaks that off when it takes too long.

import { nativeErrors } from "./errors.ts";
import type { Clock } from "../../core/clock.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { NativeSession } from "./native-runtime.ts";

export interface SessionProbe {
  /** It is the caller's now. */
  readonly session: NativeSession;
  readonly outputs: NamedTensors;
  /** To open the session and run it once. */
  readonly openMs: number;
  /** Of the second run. */
  readonly runMs: number;
}

/**
 * @param open its signal is aborted when the time is over; nothing waits for it then
 * @throws provider_too_slow, and what `open` and the session throw
 */
export async function probeSession(
  open: (end: AbortSignal) => Promise<NativeSession>,
  input: NamedTensors,
  limitMs: number,
  clock: Clock,
): Promise<SessionProbe> {
  const end = new AbortController();
  const { promise: tooLong, reject } = Promise.withResolvers<never>();
  const cancel = clock.setTimer(() => {
    reject(nativeErrors.providerTooSlow(limitMs));
    end.abort();
  }, limitMs);
  const trial = openAndRun(() => open(end.signal), input);
  try {
    return await Promise.race([trial, tooLong]);
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

/** Disposes of a session that may hang, without waiting for it. */
export function disposeInBackground(session: NativeSession): void {
  session.dispose().catch(() => {});
}

const roundMs = (milliseconds: number): number => Math.round(milliseconds * 100) / 100;
