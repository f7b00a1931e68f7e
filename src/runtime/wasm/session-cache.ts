// Session cache of an isolate, with a byte budget. WebAssembly memory never shrinks, so a session counts with the size
// that its instance has grown to. Eviction removes whole sessions, least recently used first.

import { runtimeErrors } from "../errors.ts";
import type { Session } from "../runtime.ts";

export interface SessionCacheOptions {
  readonly budgetBytes: number;
  /** Must drop all other references to the session. The cache does not dispose of it, because a run may be in flight. */
  readonly onEvict: (key: string, session: Session) => void;
}

export interface SessionCache {
  /** Current size of all sessions together. */
  readonly totalBytes: number;
  /** Adds a session and evicts others if necessary. @throws session_too_large if the session alone exceeds the budget */
  add(key: string, session: Session): void;
  /** Marks a session as used, and evicts others if it has grown. */
  touch(key: string): void;
  remove(key: string): void;
}

export function createSessionCache({ budgetBytes, onEvict }: SessionCacheOptions): SessionCache {
  /** Sessions in order of last use. */
  const sessions = new Map<string, Session>();
  const sumBytes = () =>
    [...sessions.values()].reduce((sum, session) => sum + session.memoryBytes, 0);

  function evictOthers(usedKey: string): void {
    for (const [key, session] of sessions) {
      if (sumBytes() <= budgetBytes) return;
      if (key === usedKey) continue;
      sessions.delete(key);
      onEvict(key, session);
    }
  }

  return {
    get totalBytes() {
      return sumBytes();
    },
    add(key, session) {
      if (session.memoryBytes > budgetBytes)
        throw runtimeErrors.sessionTooLarge(session.memoryBytes, budgetBytes);
      sessions.delete(key);
      sessions.set(key, session);
      evictOthers(key);
    },
    touch(key) {
      const session = sessions.get(key);
      if (session === undefined) return;
      sessions.delete(key);
      sessions.set(key, session);
      evictOthers(key);
    },
    remove(key) {
      sessions.delete(key);
    },
  };
}
