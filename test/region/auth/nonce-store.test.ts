import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import { createNonceStore } from "../../../src/region/server/auth/nonce-store.ts";

describe("nonces", () => {
  it("are known until they expire", () => {
    const clock = new ManualClock(1_000);
    const nonces = createNonceStore(clock, 10);
    expect([
      nonces.tryAdd("a", 5_000),
      nonces.tryAdd("b", 5_000),
      nonces.tryAdd("a", 5_000),
    ]).toEqual([true, true, false]);
    clock.advance(4_000);
    expect(nonces.tryAdd("a", 5_000)).toBe(false);
    clock.advance(1);
    expect(nonces.tryAdd("a", 9_000)).toBe(true);
  });

  it("that are too many are refused, and push nothing out", () => {
    const clock = new ManualClock(0);
    const nonces = createNonceStore(clock, 3);
    for (const name of ["a", "b", "c"]) nonces.tryAdd(name, name === "a" ? 1_000 : 2_000);
    for (let index = 0; index < 100; index++)
      expect(() => nonces.tryAdd(`d${index}`, 2_000)).toThrow("remembers 3 signed requests");
    expect([nonces.tryAdd("a", 1_000), nonces.tryAdd("b", 2_000)]).toEqual([false, false]);
    clock.advance(1_001);
    expect([nonces.tryAdd("d", 2_000), nonces.tryAdd("c", 2_000)]).toEqual([true, false]);
    expect(() => nonces.tryAdd("e", 2_000)).toThrow("signed requests");
  });

  it("stay known when the clock is set back", () => {
    const start = 100_000;
    let nowMs = start;
    const nonces = createNonceStore({ now: () => nowMs, setTimer: () => () => {} }, 10);
    nonces.tryAdd("a", start + 30_000);
    nowMs += 31_000;
    nonces.tryAdd("b", nowMs + 30_000); // what has expired is forgotten now
    nowMs = start;
    expect(nonces.tryAdd("a", start + 30_000)).toBe(false);
  });
});
