import { expect, it } from "vitest";
import { createBufferPool } from "../../src/region/server/buffer-pool.ts";

it("gives a buffer again only for its size, and only when it was given back", () => {
  const pool = createBufferPool();
  const [one, two] = [pool.acquire(8), pool.acquire(8)];
  expect(two).not.toBe(one);
  pool.release(one);
  expect(pool.acquire(16)).toHaveProperty("byteLength", 16);
  expect(pool.acquire(8)).toBe(one);
  expect(pool.acquire(8)).not.toBe(one);
});

it("keeps no more than its bound: the size that was not used for longest goes first", () => {
  const pool = createBufferPool(40);
  const [small, middle, large] = [pool.acquire(8), pool.acquire(16), pool.acquire(24)];
  [small, middle, large].forEach((buffer) => pool.release(buffer));
  expect(pool.acquire(8)).not.toBe(small);
  expect(pool.acquire(16)).toBe(middle);
  expect(pool.acquire(24)).toBe(large);
});
