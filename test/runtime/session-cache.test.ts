// Which sessions an isolate lets go, by what they take now and when they were last used.
import { beforeEach, describe, expect, it } from "vitest";
import type { Session } from "../../src/runtime/runtime.ts";
import { createSessionCache, type SessionCache } from "../../src/runtime/wasm/session-cache.ts";

/** Takes memory, and can be made to take more, as WebAssembly memory does. */
class FakeSizedSession implements Session {
  readonly inputs = [];
  readonly outputs = [];
  memoryBytes: number;
  constructor(memoryBytes: number) {
    this.memoryBytes = memoryBytes;
  }
  async run(): Promise<never> {
    throw new Error("the pool runs nothing");
  }
  async dispose(): Promise<never> {
    throw new Error("the pool disposes of nothing: a run may be under way");
  }
}

let evicted: [key: string, session: Session][];
let pool: SessionCache;
beforeEach(() => {
  evicted = [];
  pool = createSessionCache({
    budgetBytes: 100,
    onEvict: (key, session) => evicted.push([key, session]),
  });
});
const evictedKeys = () => evicted.map(([key]) => key);

function addSession(key: string, memoryBytes: number): FakeSizedSession {
  const session = new FakeSizedSession(memoryBytes);
  pool.add(key, session);
  return session;
}

describe("a session that is admitted", () => {
  it("counts by what it takes now", () => {
    expect(pool.totalBytes).toBe(0);
    const a = addSession("a", 30);
    addSession("b", 20);
    expect(pool.totalBytes).toBe(50);
    a.memoryBytes = 45;
    expect(pool.totalBytes).toBe(65);
  });

  it("fits where it fills the budget to the last byte", () => {
    addSession("a", 60);
    addSession("b", 40);
    expect({ bytes: pool.totalBytes, evicted }).toEqual({ bytes: 100, evicted: [] });
  });

  it("makes the one unused for longest go, with its key and its session", () => {
    const a = addSession("a", 40);
    addSession("b", 40);
    addSession("c", 40);
    expect(evicted).toEqual([["a", a]]);
    expect(pool.totalBytes).toBe(80);
  });

  it("makes as many go as it takes, and no more", () => {
    for (const key of ["a", "b", "c", "d"]) addSession(key, 25);
    addSession("e", 51);
    expect(evictedKeys()).toEqual(["a", "b", "c"]);
    expect(pool.totalBytes).toBe(76);
  });

  it("makes all others go where it needs the whole budget", () => {
    addSession("a", 1);
    addSession("b", 1);
    addSession("c", 100);
    expect(evictedKeys()).toEqual(["a", "b"]);
    expect(pool.totalBytes).toBe(100);
  });

  it("is refused where it alone is beyond the budget, and nobody goes", () => {
    addSession("a", 90);
    expect(() => addSession("b", 101)).toThrow(
      expect.objectContaining({
        code: "session_too_large",
        status: 503,
        detail: expect.stringMatching(/101 bytes.*100/),
      }),
    );
    expect({ bytes: pool.totalBytes, evicted }).toEqual({ bytes: 90, evicted: [] });
  });

  it("replaces the one with its key, which is not told: it made way for no other", () => {
    addSession("a", 70);
    addSession("b", 10);
    addSession("a", 80);
    expect({ bytes: pool.totalBytes, evicted }).toEqual({ bytes: 90, evicted: [] });
    addSession("c", 20); // b is now the one unused for longest
    expect(evictedKeys()).toEqual(["b"]);
  });
});

describe("use", () => {
  it("keeps a session: the others go first", () => {
    for (const key of ["a", "b", "c"]) addSession(key, 30);
    pool.touch("a");
    addSession("d", 30);
    expect(evictedKeys()).toEqual(["b"]);
    pool.touch("c");
    addSession("e", 30);
    expect(evictedKeys()).toEqual(["b", "a"]);
  });

  it("makes others go when the session has grown", () => {
    addSession("a", 30);
    const b = addSession("b", 30);
    addSession("c", 30);
    b.memoryBytes = 60;
    expect(evicted).toEqual([]); // noticed when it is used
    pool.touch("b");
    expect(evictedKeys()).toEqual(["a"]);
    expect(pool.totalBytes).toBe(90);
  });

  it("never makes the session itself go, even beyond the budget", () => {
    const a = addSession("a", 50);
    addSession("b", 50);
    a.memoryBytes = 150;
    pool.touch("a");
    expect(evictedKeys()).toEqual(["b"]);
    expect(pool.totalBytes).toBe(150);
    addSession("c", 10);
    expect(evictedKeys()).toEqual(["b", "a"]);
  });

  it("of a session that is gone changes nothing", () => {
    addSession("a", 60);
    addSession("b", 60);
    expect(evictedKeys()).toEqual(["a"]);
    pool.touch("a");
    expect({ bytes: pool.totalBytes, evicted: evictedKeys() }).toEqual({
      bytes: 60,
      evicted: ["a"],
    });
  });
});

describe("a session that is removed", () => {
  it("gives its room back, and is not told", () => {
    addSession("a", 90);
    pool.remove("a");
    pool.remove("never there");
    addSession("b", 90);
    expect({ bytes: pool.totalBytes, evicted }).toEqual({ bytes: 90, evicted: [] });
  });

  it("may be removed by the one who is told that it goes", () => {
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
