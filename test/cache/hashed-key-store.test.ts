// Checks that a value outside the isolate counts as absent unless it is complete and stored under its own key.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hashCacheKey } from "../../src/cache/cache-key.ts";
import { encodeChecksummed, decodeChecksummed } from "../../src/cache/checksummed-value.ts";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import { createHashedKeyStore } from "../../src/cache/hashed-key-store.ts";
import { ManualClock, systemClock } from "../../src/core/clock.ts";
import { cacheStoreContract } from "../contract/cache-store.ts";

cacheStoreContract("hashed-key, over lru", async () => {
  const clock = new ManualClock();
  return {
    cache: createHashedKeyStore(createLruCache({ maxBytes: 1_000_000, clock })),
    pass: async (seconds) => clock.advance(seconds * 1000),
  };
});

const bytes = fc.uint8Array({ maxLength: 64 });

describe("a checksummed value", () => {
  it("round-trips (property)", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), bytes, async (key, value) => {
        expect(await decodeChecksummed(key, await encodeChecksummed(key, value))).toEqual(value);
      }),
    );
  });

  it("is absent if it was truncated or extended (property)", async () => {
    await fc.assert(
      fc.asyncProperty(
        bytes,
        fc.nat(),
        fc.uint8Array({ minLength: 1, maxLength: 4 }),
        async (value, at, more) => {
          const stored = await encodeChecksummed("key", value);
          expect(
            await decodeChecksummed("key", stored.subarray(0, at % stored.length)),
          ).toBeUndefined();
          expect(await decodeChecksummed("key", Uint8Array.of(...stored, ...more))).toBeUndefined();
        },
      ),
    );
  });

  it("is absent if one of its bits was changed (property)", async () => {
    await fc.assert(
      fc.asyncProperty(bytes, fc.nat(), async (value, at) => {
        const stored = await encodeChecksummed("key", value);
        const bit = at % (8 * stored.length);
        const changed = stored.map((byte, index) =>
          index === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte,
        );
        expect(await decodeChecksummed("key", changed)).toBeUndefined();
      }),
    );
  });

  it("is absent under another key, as is a value of another writer", async () => {
    expect(
      await decodeChecksummed("other", await encodeChecksummed("key", Uint8Array.of(1))),
    ).toBeUndefined();
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("", "ET\u0001", "ET\u0002", '{"label":"yes"}'),
        fc.uint8Array({ maxLength: 100 }),
        async (beginning, rest) => {
          expect(
            await decodeChecksummed(
              "key",
              Uint8Array.of(...new TextEncoder().encode(beginning), ...rest),
            ),
          ).toBeUndefined();
        },
      ),
    );
  });
});

describe("a hashed-key store", () => {
  it("stores checksummed values under the key's hash", async () => {
    const inner = createLruCache({ maxBytes: 1_000_000, clock: systemClock });
    await createHashedKeyStore(inner).set(
      [{ key: "a text of a client", value: Uint8Array.of(7) }],
      60,
    );
    const hash = await hashCacheKey("a text of a client");
    expect(await inner.get([hash])).toEqual([await encodeChecksummed(hash, Uint8Array.of(7))]);
  });
});
