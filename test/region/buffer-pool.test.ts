// Buffer pool: reuse of released buffers by size, within a bound.
import { expect, it } from "vitest";
import { createBufferPool } from "../../src/region/server/buffer-pool.ts";

it("reuses a buffer only for its size, and only after its release", () => {
  const pool = createBufferPool();
  const [first, second] = [pool.acquire(8), pool.acquire(8)];
  expect(second).not.toBe(first);
  pool.release(first);
  expect(pool.acquire(16)).toHaveProperty("byteLength", 16);
  expect(pool.acquire(8)).toBe(first);
  expect(pool.acquire(8)).not.toBe(first);
});

it("evicts the least recently used size above its bound", () => {
  const pool = createBufferPool(40);
  const [small, middle, large] = [pool.acquire(8), pool.acquire(16), pool.acquire(24)];
  [small, middle, large].forEach((buffer) => pool.release(buffer));
  expect(pool.acquire(8)).not.toBe(small);
  expect(pool.acquire(16)).toBe(middle);
  expect(pool.acquire(24)).toBe(large);
});
