// Sessions that an isolate keeps, within a budget of bytes. WebAssembly memory never shrinks, so what counts is what an
// instance has grown to, and a session is let go whole, the one unused for longest first.

import { runtimeErrors } from "../errors.ts";
import type { Session } from "../runtime.ts";

export interface SessionCacheOptions {
  readonly budgetBytes: number;
  /** The session must be forgotten by everyone else, too; it is not disposed of: a run may be under way. */
  readonly onEvict: (key: string, session: Session) => void;
}

export interface SessionCache {
  /** Of all sessions together, as large as they are now. */
  readonly totalBytes: number;
  /** Makes room for the session. @throws session_too_large where it alone is beyond the budget */
  add(key: string, session: Session): void;
  /** Notes that the session is in use, and lets others go if it has grown. */
  touch(key: string): void;
  remove(key: string): void;
}

export function createSessionCache({ budgetBytes, onEvict }: SessionCacheOptions): SessionCache {
  /** In the order of their last use. */
  const sessions = new Map<string, Session>();
  const total = () => [...sessions.values()].reduce((sum, session) => sum + session.memoryBytes, 0);

  function makeRoom(forKey: string): void {
    for (const [key, session] of sessions) {
      if (total() <= budgetBytes) return;
      if (key === forKey) continue;
      sessions.delete(key);
      onEvict(key, session);
    }
  }

  return {
    get totalBytes() {
      return total();
    },
    add(key, session) {
      if (session.memoryBytes > budgetBytes)
        throw runtimeErrors.sessionTooLarge(session.memoryBytes, budgetBytes);
      sessions.delete(key);
      sessions.set(key, session);
      makeRoom(key);
    },
    touch(key) {
      const session = sessions.get(key);
      if (session === undefined) return;
      sessions.delete(key);
      sessions.set(key, session);
      makeRoom(key);
    },
    remove(key) {
      sessions.delete(key);
    },
  };
}
