// Values outside the isolate: what was not sealed under its own key, whole, is absent.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createLruCache } from "../../src/cache/drivers/lru.ts";
import { hashCacheKey } from "../../src/cache/cache-key.ts";
import { encodeChecksummed, decodeChecksummed } from "../../src/cache/checksummed-value.ts";
import { createHashedKeyStore } from "../../src/cache/hashed-key-store.ts";
import { ManualClock, systemClock } from "../../src/core/clock.ts";
import { cacheStoreContract } from "../contract/cache-store.ts";

cacheStoreContract("sealed, over lru", async () => {
  const clock = new ManualClock();
  return {
    cache: createHashedKeyStore(createLruCache({ maxBytes: 1_000_000, clock })),
    pass: async (seconds) => clock.advance(seconds * 1000),
  };
});

const bytes = fc.uint8Array({ maxLength: 64 });

describe("a sealed value", () => {
  it("comes out as it went in", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), bytes, async (key, value) => {
        expect(await decodeChecksummed(key, await encodeChecksummed(key, value))).toEqual(value);
      }),
    );
  });

  it("is absent when it was cut off or prolonged", async () => {
    await fc.assert(
      fc.asyncProperty(
        bytes,
        fc.nat(),
        fc.uint8Array({ minLength: 1, maxLength: 4 }),
        async (value, at, more) => {
          const sealed = await encodeChecksummed("key", value);
          expect(
            await decodeChecksummed("key", sealed.subarray(0, at % sealed.length)),
          ).toBeUndefined();
          expect(await decodeChecksummed("key", Uint8Array.of(...sealed, ...more))).toBeUndefined();
        },
      ),
    );
  });

  it("is absent when a bit of it was changed", async () => {
    await fc.assert(
      fc.asyncProperty(bytes, fc.nat(), async (value, at) => {
        const sealed = await encodeChecksummed("key", value);
        const bit = at % (8 * sealed.length);
        const changed = sealed.map((byte, index) =>
          index === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte,
        );
        expect(await decodeChecksummed("key", changed)).toBeUndefined();
      }),
    );
  });

  it("is absent under another key, and so is what something else wrote", async () => {
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

  it("is what the store underneath gets, under the key's hash", async () => {
    const under = createLruCache({ maxBytes: 1_000_000, clock: systemClock });
    await createHashedKeyStore(under).set(
      [{ key: "a text of a client", value: Uint8Array.of(7) }],
      60,
    );
    const hash = await hashCacheKey("a text of a client");
    expect(await under.get([hash])).toEqual([await encodeChecksummed(hash, Uint8Array.of(7))]);
  });
});
