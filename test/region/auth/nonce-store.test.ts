// The replay protection: which nonces it remembers, and for how long.
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import { createNonceStore } from "../../../src/region/server/auth/nonce-store.ts";

describe("a nonce store", () => {
  it("knows a nonce until the nonce expires", () => {
    const clock = new ManualClock(1_000);
    const nonces = createNonceStore(clock, 10);
    expect(nonces.tryAdd("a", 5_000)).toBe(true);
    expect(nonces.tryAdd("b", 5_000)).toBe(true);
    expect(nonces.tryAdd("a", 5_000)).toBe(false);
    clock.advance(4_000);
    expect(nonces.tryAdd("a", 5_000)).toBe(false);
    clock.advance(1);
    expect(nonces.tryAdd("a", 9_000)).toBe(true);
  });

  it("rejects new nonces when it is full, and evicts none", () => {
    const clock = new ManualClock(0);
    const nonces = createNonceStore(clock, 3);
    for (const name of ["a", "b", "c"]) nonces.tryAdd(name, name === "a" ? 1_000 : 2_000);
    const full = expect.objectContaining({ code: "nonces_full", status: 503 });
    for (let index = 0; index < 100; index++)
      expect(() => nonces.tryAdd(`d${index}`, 2_000)).toThrow(full);
    expect(nonces.tryAdd("a", 1_000)).toBe(false);
    expect(nonces.tryAdd("b", 2_000)).toBe(false);
    clock.advance(1_001);
    expect(nonces.tryAdd("d", 2_000)).toBe(true);
    expect(nonces.tryAdd("c", 2_000)).toBe(false);
    expect(() => nonces.tryAdd("e", 2_000)).toThrow(full);
  });

  it("still knows its nonces after the clock is set back", () => {
    const start = 100_000;
    let nowMs = start;
    const nonces = createNonceStore({ now: () => nowMs, setTimer: () => () => {} }, 10);
    nonces.tryAdd("a", start + 30_000);
    nowMs += 31_000;
    nonces.tryAdd("b", nowMs + 30_000); // This call forgets expired nonces.
    nowMs = start;
    expect(nonces.tryAdd("a", start + 30_000)).toBe(false);
  });
});
