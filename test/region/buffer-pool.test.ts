import { expect, it } from "vitest";
import { createBufferPool } from "../../src/region/server/buffer-pool.ts";

it("gives a buffer again only for its size, and only when it was given back", () => {
  const pool = createBufferPool();
  const [one, two] = [pool.take(8), pool.take(8)];
  expect(two).not.toBe(one);
  pool.giveBack(one);
  expect(pool.take(16)).toHaveProperty("byteLength", 16);
  expect(pool.take(8)).toBe(one);
  expect(pool.take(8)).not.toBe(one);
});

it("keeps no more than its bound: the size that was not used for longest goes first", () => {
  const pool = createBufferPool(40);
  const [small, middle, large] = [pool.take(8), pool.take(16), pool.take(24)];
  [small, middle, large].forEach((buffer) => pool.giveBack(buffer));
  expect(pool.take(8)).not.toBe(small);
  expect(pool.take(16)).toBe(middle);
  expect(pool.take(24)).toBe(large);
});
