// When the issuer's keys are fetched, and what is made of them.
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import {
  createRemoteKeySet,
  createStaticKeySet,
  type KeySet,
} from "../../../src/http/access/drivers/jwks.ts";
import { createTestIssuer, type TestIssuer } from "../../support/test-credentials.ts";

const JWKS_URL = "https://issuer.test/keys";

let clock: ManualClock;
let one: TestIssuer;
let two: TestIssuer;
let served: () => Promise<Response>;
let fetched: string[];
let asked: RequestInit | undefined;
let failures: unknown[];
let keys: KeySet;
beforeEach(async () => {
  clock = new ManualClock(1_000_000);
  [one, two] = [await createTestIssuer("ES256", "one"), await createTestIssuer("ES256", "two")];
  served = async () => Response.json(one.jwks);
  [fetched, failures] = [[], []];
  keys = createRemoteKeySet({
    url: JWKS_URL,
    algorithm: "ES256",
    clock,
    timeoutMs: 2_000,
    ttlMs: 600_000,
    minRefreshIntervalMs: 30_000,
    fetch: (url, init) => {
      fetched.push(url);
      asked = init;
      return served();
    },
    onFailure: (error) => failures.push(error),
    pause: () => Promise.resolve(),
  });
});

const identityUnavailable = { code: "identity_unavailable", status: 503, retryable: true };

describe("keys from an address", () => {
  it("are fetched once, and again after their time", async () => {
    for (let count = 0; count < 10; count++) expect(await keys.find("one")).toBeDefined();
    expect(fetched).toEqual([JWKS_URL]);
    expect(asked).toMatchObject({ redirect: "manual", signal: expect.any(AbortSignal) });
    clock.advance(599_999);
    await keys.find("one");
    expect(fetched).toHaveLength(1);
    clock.advance(1);
    await keys.find("one");
    expect(fetched).toHaveLength(2);
  });

  it("are fetched for an unknown key at most once an interval, however many ask", async () => {
    await keys.find("one");
    clock.advance(30_000);
    const flood = await Promise.all(
      Array.from({ length: 500 }, (_, count) => keys.find(`made up ${count}`)),
    );
    expect(new Set(flood)).toEqual(new Set([undefined]));
    expect(fetched).toHaveLength(2);
    clock.advance(29_999);
    await keys.find("made up");
    expect(fetched).toHaveLength(2);
  });

  it("are fetched once when an isolate is new, however many ask", async () => {
    const flood = await Promise.all(Array.from({ length: 100 }, () => keys.find("one")));
    expect(flood.every((key) => key !== undefined)).toBe(true);
    expect(fetched).toHaveLength(1);
  });

  it("change while the edge runs: a new key is found, one that is gone is refused", async () => {
    await keys.find("one");
    served = async () => Response.json(two.jwks);
    clock.advance(30_000);
    expect(await keys.find("two")).toBeDefined();
    expect(await keys.find("one")).toBeUndefined();
  });

  it.each([
    ["is away", () => Promise.reject(new TypeError("connection refused"))],
    ["fails", async () => new Response("no", { status: 500 })],
    [
      "sends elsewhere",
      async () =>
        new Response(null, { status: 302, headers: { location: "https://forger.test/keys" } }),
    ],
    ["answers no JSON", async () => new Response("<html>")],
    ["answers no key set", async () => Response.json({ keys: [] })],
    ["never ends", async () => new Response("x".repeat(100_000))],
  ])(
    "serve on when the issuer %s, and are refused with a remedy where there were none",
    async (_, fails) => {
      const good = served;
      served = fails;
      await expect(keys.find("one")).rejects.toMatchObject(identityUnavailable);
      await expect(keys.find("one")).rejects.toMatchObject(identityUnavailable);
      expect(fetched).toHaveLength(1);
      clock.advance(2_000);
      served = good;
      expect(await keys.find("one")).toBeDefined();
      clock.advance(600_000);
      served = fails;
      expect(await keys.find("one")).toBeDefined();
      expect(failures).toHaveLength(2);
      expect(fetched).toEqual([JWKS_URL, JWKS_URL, JWKS_URL]);
    },
  );
});

describe("a key set", () => {
  it("gives its signing keys of the one algorithm, and nothing else", async () => {
    const [rsa] = (await createTestIssuer("RS256", "rsa")).jwks.keys;
    const [ec] = one.jwks.keys;
    const listed = [
      rsa,
      { ...ec, kid: "for encryption", use: "enc" },
      { ...ec, kid: "of another", alg: "ES384" },
      { ...ec, kid: undefined },
      { kty: "oct", k: "c2VjcmV0", kid: "secret", alg: "ES256" },
      "nonsense",
      { ...ec, kid: "broken", x: "AAAA" },
      ec,
    ];
    const set = createStaticKeySet({ keys: listed }, "ES256");
    expect(
      await Promise.all(
        ["rsa", "for encryption", "of another", "secret", "broken", "one"].map(
          async (kid) => (await set.find(kid))?.type,
        ),
      ),
    ).toEqual([undefined, undefined, undefined, undefined, undefined, "public"]);
  });

  it("gives no RSA key below 2048 bits", async () => {
    const { publicKey } = await crypto.subtle.generateKey(
      {
        name: "RSASSA-PKCS1-v1_5",
        modulusLength: 1024,
        publicExponent: Uint8Array.of(1, 0, 1),
        hash: "SHA-256",
      },
      true,
      ["sign", "verify"],
    );
    const short = { ...(await crypto.subtle.exportKey("jwk", publicKey)), kid: "short" };
    expect(await createStaticKeySet({ keys: [short] }, "RS256").find("short")).toBeUndefined();
  });
});
