// JWKS: when keys are fetched, and which of them are imported.
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
let issuer: TestIssuer;
let rotatedIssuer: TestIssuer;
let respond: () => Promise<Response>;
let fetchedUrls: string[];
let lastInit: RequestInit | undefined;
let failures: unknown[];
let keys: KeySet;
beforeEach(async () => {
  clock = new ManualClock(1_000_000);
  issuer = await createTestIssuer("ES256", "one");
  rotatedIssuer = await createTestIssuer("ES256", "two");
  respond = async () => Response.json(issuer.jwks);
  fetchedUrls = [];
  failures = [];
  keys = createRemoteKeySet({
    url: JWKS_URL,
    algorithm: "ES256",
    clock,
    timeoutMs: 2_000,
    ttlMs: 600_000,
    minRefreshIntervalMs: 30_000,
    fetch: (url, init) => {
      fetchedUrls.push(url);
      lastInit = init;
      return respond();
    },
    onFailure: (error) => failures.push(error),
    pause: () => Promise.resolve(),
  });
});

const identityUnavailable = { code: "identity_unavailable", status: 503, retryable: true };

describe("createRemoteKeySet", () => {
  it("fetches keys once, and again after their lifetime", async () => {
    for (let count = 0; count < 10; count++) expect(await keys.find("one")).toBeDefined();
    expect(fetchedUrls).toEqual([JWKS_URL]);
    expect(lastInit).toMatchObject({ redirect: "manual", signal: expect.any(AbortSignal) });
    clock.advance(599_999);
    await keys.find("one");
    expect(fetchedUrls).toHaveLength(1);
    clock.advance(1);
    await keys.find("one");
    expect(fetchedUrls).toHaveLength(2);
  });

  it("fetches at most once per interval for any number of unknown keys", async () => {
    await keys.find("one");
    clock.advance(30_000);
    const flood = await Promise.all(
      Array.from({ length: 500 }, (_, count) => keys.find(`made up ${count}`)),
    );
    expect(new Set(flood)).toEqual(new Set([undefined]));
    expect(fetchedUrls).toHaveLength(2);
    clock.advance(29_999);
    await keys.find("made up");
    expect(fetchedUrls).toHaveLength(2);
  });

  it("fetches once in a new isolate for any number of requests", async () => {
    const flood = await Promise.all(Array.from({ length: 100 }, () => keys.find("one")));
    expect(flood.every((key) => key !== undefined)).toBe(true);
    expect(fetchedUrls).toHaveLength(1);
  });

  it("finds a rotated key, and no longer the old one", async () => {
    await keys.find("one");
    respond = async () => Response.json(rotatedIssuer.jwks);
    clock.advance(30_000);
    expect(await keys.find("two")).toBeDefined();
    expect(await keys.find("one")).toBeUndefined();
  });
});

describe("createRemoteKeySet during an outage of the issuer", () => {
  it.each([
    ["is unavailable", () => Promise.reject(new TypeError("connection refused"))],
    ["fails", async () => new Response("no", { status: 500 })],
    [
      "sends elsewhere",
      async () =>
        new Response(null, { status: 302, headers: { location: "https://forger.test/keys" } }),
    ],
    ["returns no JSON", async () => new Response("<html>")],
    ["returns no key set", async () => Response.json({ keys: [] })],
    ["returns too many bytes", async () => new Response("x".repeat(100_000))],
  ])("keeps its keys if the issuer %s, and throws without any", async (_name, fail) => {
    const succeed = respond;
    respond = fail;
    await expect(keys.find("one")).rejects.toMatchObject(identityUnavailable);
    await expect(keys.find("one")).rejects.toMatchObject(identityUnavailable);
    expect(fetchedUrls).toHaveLength(1);
    clock.advance(2_000);
    respond = succeed;
    expect(await keys.find("one")).toBeDefined();
    clock.advance(600_000);
    respond = fail;
    expect(await keys.find("one")).toBeDefined();
    expect(failures).toHaveLength(2);
    expect(fetchedUrls).toEqual([JWKS_URL, JWKS_URL, JWKS_URL]);
  });
});

describe("createStaticKeySet", () => {
  it("imports only signing keys of its algorithm", async () => {
    const [rsa] = (await createTestIssuer("RS256", "rsa")).jwks.keys;
    const [ec] = issuer.jwks.keys;
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
    for (const kid of ["rsa", "for encryption", "of another", "secret", "broken"])
      expect(await set.find(kid), kid).toBeUndefined();
    expect(await set.find("one")).toMatchObject({ type: "public" });
  });

  it("imports no RSA key below 2048 bits", async () => {
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
