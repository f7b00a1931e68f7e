// Which sessions an isolate lets go, by what they take now and when they were last used.
import { beforeEach, describe, expect, it } from "vitest";
import type { Session } from "../../src/runtime/runtime.ts";
import { createSessionPool, type SessionPool } from "../../src/runtime/wasm/session-pool.ts";

/** Takes memory, and can be made to take more, as WebAssembly memory does. */
class SizedSession implements Session {
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
let pool: SessionPool;
beforeEach(() => {
  evicted = [];
  pool = createSessionPool({
    budgetBytes: 100,
    onEvict: (key, session) => evicted.push([key, session]),
  });
});
const evictedKeys = () => evicted.map(([key]) => key);

function admit(key: string, memoryBytes: number): SizedSession {
  const session = new SizedSession(memoryBytes);
  pool.admit(key, session);
  return session;
}

describe("a session that is admitted", () => {
  it("counts by what it takes now", () => {
    expect(pool.bytes).toBe(0);
    const a = admit("a", 30);
    admit("b", 20);
    expect(pool.bytes).toBe(50);
    a.memoryBytes = 45;
    expect(pool.bytes).toBe(65);
  });

  it("fits where it fills the budget to the last byte", () => {
    admit("a", 60);
    admit("b", 40);
    expect({ bytes: pool.bytes, evicted }).toEqual({ bytes: 100, evicted: [] });
  });

  it("makes the one unused for longest go, with its key and its session", () => {
    const a = admit("a", 40);
    admit("b", 40);
    admit("c", 40);
    expect(evicted).toEqual([["a", a]]);
    expect(pool.bytes).toBe(80);
  });

  it("makes as many go as it takes, and no more", () => {
    for (const key of ["a", "b", "c", "d"]) admit(key, 25);
    admit("e", 51);
    expect(evictedKeys()).toEqual(["a", "b", "c"]);
    expect(pool.bytes).toBe(76);
  });

  it("makes all others go where it needs the whole budget", () => {
    admit("a", 1);
    admit("b", 1);
    admit("c", 100);
    expect(evictedKeys()).toEqual(["a", "b"]);
    expect(pool.bytes).toBe(100);
  });

  it("is refused where it alone is beyond the budget, and nobody goes", () => {
    admit("a", 90);
    expect(() => admit("b", 101)).toThrow(
      expect.objectContaining({
        code: "session_too_large",
        status: 503,
        detail: expect.stringMatching(/101 bytes.*100/),
      }),
    );
    expect({ bytes: pool.bytes, evicted }).toEqual({ bytes: 90, evicted: [] });
  });

  it("replaces the one with its key, which is not told: it made way for no other", () => {
    admit("a", 70);
    admit("b", 10);
    admit("a", 80);
    expect({ bytes: pool.bytes, evicted }).toEqual({ bytes: 90, evicted: [] });
    admit("c", 20); // b is now the one unused for longest
    expect(evictedKeys()).toEqual(["b"]);
  });
});

describe("use", () => {
  it("keeps a session: the others go first", () => {
    for (const key of ["a", "b", "c"]) admit(key, 30);
    pool.touch("a");
    admit("d", 30);
    expect(evictedKeys()).toEqual(["b"]);
    pool.touch("c");
    admit("e", 30);
    expect(evictedKeys()).toEqual(["b", "a"]);
  });

  it("makes others go when the session has grown", () => {
    admit("a", 30);
    const b = admit("b", 30);
    admit("c", 30);
    b.memoryBytes = 60;
    expect(evicted).toEqual([]); // noticed when it is used
    pool.touch("b");
    expect(evictedKeys()).toEqual(["a"]);
    expect(pool.bytes).toBe(90);
  });

  it("never makes the session itself go, even beyond the budget", () => {
    const a = admit("a", 50);
    admit("b", 50);
    a.memoryBytes = 150;
    pool.touch("a");
    expect(evictedKeys()).toEqual(["b"]);
    expect(pool.bytes).toBe(150);
    admit("c", 10);
    expect(evictedKeys()).toEqual(["b", "a"]);
  });

  it("of a session that is gone changes nothing", () => {
    admit("a", 60);
    admit("b", 60);
    expect(evictedKeys()).toEqual(["a"]);
    pool.touch("a");
    expect({ bytes: pool.bytes, evicted: evictedKeys() }).toEqual({ bytes: 60, evicted: ["a"] });
  });
});

describe("a session that is removed", () => {
  it("gives its room back, and is not told", () => {
    admit("a", 90);
    pool.remove("a");
    pool.remove("never there");
    admit("b", 90);
    expect({ bytes: pool.bytes, evicted }).toEqual({ bytes: 90, evicted: [] });
  });

  it("may be removed by the one who is told that it goes", () => {
    const reentrant = createSessionPool({
      budgetBytes: 100,
      onEvict(key, session) {
        evicted.push([key, session]);
        reentrant.remove(key);
      },
    });
    for (const key of ["a", "b", "c", "d"]) reentrant.admit(key, new SizedSession(40));
    expect(evictedKeys()).toEqual(["a", "b"]);
    expect(reentrant.bytes).toBe(80);
  });
});
