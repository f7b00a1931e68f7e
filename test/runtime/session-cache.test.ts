// Tests the eviction of sessions by current size and last use.
import { beforeEach, describe, expect, it } from "vitest";
import type { Session } from "../../src/runtime/runtime.ts";
import { createSessionCache, type SessionCache } from "../../src/runtime/wasm/session-cache.ts";

/** A session whose memory can grow, like WebAssembly memory. */
class FakeSizedSession implements Session {
  readonly inputs = [];
  readonly outputs = [];
  memoryBytes: number;
  constructor(memoryBytes: number) {
    this.memoryBytes = memoryBytes;
  }
  async run(): Promise<never> {
    throw new Error("the cache must not run sessions");
  }
  async dispose(): Promise<never> {
    throw new Error("the cache must not dispose of sessions, because a run may be in flight");
  }
}

let evicted: [key: string, session: Session][];
let cache: SessionCache;
beforeEach(() => {
  evicted = [];
  cache = createSessionCache({
    budgetBytes: 100,
    onEvict: (key, session) => evicted.push([key, session]),
  });
});
const evictedKeys = () => evicted.map(([key]) => key);

function addSession(key: string, memoryBytes: number): FakeSizedSession {
  const session = new FakeSizedSession(memoryBytes);
  cache.add(key, session);
  return session;
}

describe("an added session", () => {
  it("counts with its current size", () => {
    expect(cache.totalBytes).toBe(0);
    const a = addSession("a", 30);
    addSession("b", 20);
    expect(cache.totalBytes).toBe(50);
    a.memoryBytes = 45;
    expect(cache.totalBytes).toBe(65);
  });

  it("may fill the budget exactly", () => {
    addSession("a", 60);
    addSession("b", 40);
    expect({ bytes: cache.totalBytes, evicted }).toEqual({ bytes: 100, evicted: [] });
  });

  it("evicts the least recently used session", () => {
    const a = addSession("a", 40);
    addSession("b", 40);
    addSession("c", 40);
    expect(evicted).toEqual([["a", a]]);
    expect(cache.totalBytes).toBe(80);
  });

  it("evicts no more sessions than necessary", () => {
    for (const key of ["a", "b", "c", "d"]) addSession(key, 25);
    addSession("e", 51);
    expect(evictedKeys()).toEqual(["a", "b", "c"]);
    expect(cache.totalBytes).toBe(76);
  });

  it("evicts all others if it needs the whole budget", () => {
    addSession("a", 1);
    addSession("b", 1);
    addSession("c", 100);
    expect(evictedKeys()).toEqual(["a", "b"]);
    expect(cache.totalBytes).toBe(100);
  });

  it("is rejected without evictions if it alone exceeds the budget", () => {
    addSession("a", 90);
    expect(() => addSession("b", 101)).toThrow(
      expect.objectContaining({
        code: "session_too_large",
        status: 503,
        detail: expect.stringMatching(/\b101\b.*\b100\b/),
      }),
    );
    expect({ bytes: cache.totalBytes, evicted }).toEqual({ bytes: 90, evicted: [] });
  });

  it("replaces the session with the same key without an eviction", () => {
    addSession("a", 70);
    addSession("b", 10);
    addSession("a", 80);
    expect({ bytes: cache.totalBytes, evicted }).toEqual({ bytes: 90, evicted: [] });
    addSession("c", 20); // b is now the least recently used session
    expect(evictedKeys()).toEqual(["b"]);
  });
});

describe("touch", () => {
  it("protects a session from eviction before others", () => {
    for (const key of ["a", "b", "c"]) addSession(key, 30);
    cache.touch("a");
    addSession("d", 30);
    expect(evictedKeys()).toEqual(["b"]);
    cache.touch("c");
    addSession("e", 30);
    expect(evictedKeys()).toEqual(["b", "a"]);
  });

  it("evicts others if the session has grown", () => {
    addSession("a", 30);
    const b = addSession("b", 30);
    addSession("c", 30);
    b.memoryBytes = 60;
    expect(evicted).toEqual([]); // growth is noticed at the next use
    cache.touch("b");
    expect(evictedKeys()).toEqual(["a"]);
    expect(cache.totalBytes).toBe(90);
  });

  it("never evicts the session itself, even beyond the budget", () => {
    const a = addSession("a", 50);
    addSession("b", 50);
    a.memoryBytes = 150;
    cache.touch("a");
    expect(evictedKeys()).toEqual(["b"]);
    expect(cache.totalBytes).toBe(150);
    addSession("c", 10);
    expect(evictedKeys()).toEqual(["b", "a"]);
  });

  it("has no effect for an evicted session", () => {
    addSession("a", 60);
    addSession("b", 60);
    expect(evictedKeys()).toEqual(["a"]);
    cache.touch("a");
    expect({ bytes: cache.totalBytes, evicted: evictedKeys() }).toEqual({
      bytes: 60,
      evicted: ["a"],
    });
  });
});

describe("a removed session", () => {
  it("frees its memory without an eviction", () => {
    addSession("a", 90);
    cache.remove("a");
    cache.remove("unknown");
    addSession("b", 90);
    expect({ bytes: cache.totalBytes, evicted }).toEqual({ bytes: 90, evicted: [] });
  });

  it("may be removed by the eviction callback", () => {
    const reentrant = createSessionCache({
      budgetBytes: 100,
      onEvict(key, session) {
        evicted.push([key, session]);
        reentrant.remove(key);
      },
    });
    for (const key of ["a", "b", "c", "d"]) reentrant.add(key, new FakeSizedSession(40));
    expect(evictedKeys()).toEqual(["a", "b"]);
    expect(reentrant.totalBytes).toBe(80);
  });
});
