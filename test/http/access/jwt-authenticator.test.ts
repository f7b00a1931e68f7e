import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
// JWT authenticator: forged tokens, and the claims that it honors.
import { EdgeTierError } from "../../../src/core/errors.ts";
import type { Authenticator } from "../../../src/http/access/authenticator.ts";
import { createStaticKeySet } from "../../../src/http/access/drivers/jwks.ts";
import { createJwtAuthenticator } from "../../../src/http/access/drivers/jwt-authenticator.ts";
import {
  AUDIENCE,
  base64Url,
  ISSUER,
  signWithSecret,
  createTestIssuer,
  type TestIssuer,
  createValidClaims,
} from "../../support/test-credentials.ts";

let clock: ManualClock;
let issuer: TestIssuer;
let authenticator: Authenticator;
/** Ids of the keys that the authenticator looked up. */
let lookedUp: string[];
beforeEach(async () => {
  clock = new ManualClock(1_800_000_000_000);
  issuer = await createTestIssuer("RS256");
  const keys = createStaticKeySet({ keys: [...issuer.jwks.keys] }, "RS256");
  lookedUp = [];
  authenticator = createJwtAuthenticator({
    issuer: ISSUER,
    audience: AUDIENCE,
    algorithm: "RS256",
    keys: { find: (kid) => (lookedUp.push(kid), keys.find(kid)) },
    clock,
    tenantClaim: "https://claims.test/org",
    scopeClaim: "permissions",
  });
});

const createClaims = (changes: object = {}) =>
  createValidClaims(clock.now(), {
    "https://claims.test/org": "acme",
    permissions: ["predict", "billing"],
    ...changes,
  });
/** @returns the problem of a rejected token, or "accepted" */
const authenticate = async (token: string): Promise<string> =>
  await authenticator.authenticate(token).then(
    () => "accepted",
    (error: unknown) => {
      if (!(error instanceof EdgeTierError) || error.code !== "invalid_credential") throw error;
      return String(error.facts["problem"]);
    },
  );

it("reads tenant and scopes from the configured claims, and ignores unknown scopes", async () => {
  expect(await authenticator.authenticate(await issuer.sign(createClaims()))).toEqual({
    id: "somebody",
    tenant: "acme",
    scopes: ["predict"],
  });
  expect(
    await authenticator.authenticate(
      await issuer.sign(createClaims({ permissions: undefined, sub: undefined })),
    ),
  ).toEqual({ id: "acme", tenant: "acme", scopes: [] });
  for (const typ of ["at+jwt", "application/at+jwt", undefined])
    expect(await authenticate(await issuer.sign(createClaims(), { typ }))).toBe("accepted");
  expect(
    await authenticate(await issuer.sign(createClaims({ aud: ["https://other.test", AUDIENCE] }))),
  ).toBe("accepted");
});

describe("the JWT authenticator rejects", () => {
  it.each([
    ["another issuer", { iss: "https://issuer.test" }, "issuer"],
    ["another audience", { aud: "https://other.test" }, "audience"],
    ["no audience", { aud: undefined }, "malformed"],
    ["no expiry", { exp: undefined }, "malformed"],
    ["an expiry that is not a number", { exp: "2100-01-01" }, "malformed"],
    ["a token that is not valid yet", { nbf: 1_800_000_060 }, "not_yet_valid"],
    ["no tenant", { "https://claims.test/org": undefined }, "tenant"],
    ["a tenant that is not a string", { "https://claims.test/org": { a: 1 } }, "tenant"],
  ])("%s, without a key lookup", async (_name, changes, problem) => {
    expect(await authenticate(await issuer.sign(createClaims(changes)))).toBe(problem);
    expect(lookedUp).toEqual([]);
  });

  it("`alg: none`, with and without a signature", async () => {
    const unsigned = [{ alg: "none", typ: "JWT", kid: "one" }, createClaims()]
      .map((part) => base64Url(JSON.stringify(part)))
      .join(".");
    const signature = (await issuer.sign(createClaims())).split(".")[2] ?? "";
    for (const token of [`${unsigned}.`, `${unsigned}.${signature}`])
      expect(await authenticate(token)).toBe("algorithm");
    expect(lookedUp).toEqual([]);
  });

  it("an HMAC signature, also with the public key as the secret", async () => {
    const publicKey = JSON.stringify(issuer.jwks.keys[0]);
    expect(await authenticate(await signWithSecret(createClaims(), publicKey))).toBe("algorithm");
    const relabeled = (await signWithSecret(createClaims(), publicKey)).split(".");
    relabeled[0] = base64Url(JSON.stringify({ alg: "RS256", typ: "JWT", kid: "one" }));
    expect(await authenticate(relabeled.join("."))).toBe("signature");
  });

  it("an algorithm chosen by the token for a key without one (CVE-2026-22817, CVE-2026-22818)", async () => {
    const [key] = issuer.jwks.keys;
    const keys = createStaticKeySet({ keys: [{ ...key, alg: undefined }] }, "RS256");
    const permissive = createJwtAuthenticator({
      issuer: ISSUER,
      audience: AUDIENCE,
      algorithm: "RS256",
      keys,
      clock,
      tenantClaim: "https://claims.test/org",
      scopeClaim: "permissions",
    });
    expect(await permissive.authenticate(await issuer.sign(createClaims()))).toMatchObject({
      tenant: "acme",
    });
    await expect(
      permissive.authenticate(await signWithSecret(createClaims(), JSON.stringify(key))),
    ).rejects.toMatchObject({ code: "invalid_credential" });
  });
});

describe("the JWT authenticator also rejects", () => {
  it("another algorithm of the same issuer", async () => {
    expect(await authenticate(await (await createTestIssuer("ES256")).sign(createClaims()))).toBe(
      "algorithm",
    );
    expect(await authenticate(await issuer.sign(createClaims(), { alg: "RS512" }))).toBe(
      "algorithm",
    );
  });

  it("a key that the token contains or references", async () => {
    const forger = await createTestIssuer("RS256");
    const jwk = forger.jwks.keys[0];
    for (const header of [
      { jwk },
      { jku: "https://forger.test/keys", kid: "one" },
      { x5u: "https://forger.test/chain" },
    ]) {
      expect(await authenticate(await forger.sign(createClaims(), header))).toBe("signature");
    }
    expect(await authenticate(await issuer.sign(createClaims(), { kid: "two" }))).toBe("key");
    expect(await authenticate(await issuer.sign(createClaims(), { kid: undefined }))).toBe(
      "malformed",
    );
    expect(await authenticate(await issuer.sign(createClaims(), { crit: ["exp"] }))).toBe(
      "signature",
    );
  });

  it("other claims under a valid signature", async () => {
    const [header, , signature] = (await issuer.sign(createClaims())).split(".");
    const body = base64Url(JSON.stringify(createClaims({ permissions: ["admin"] })));
    expect(await authenticate(`${header}.${body}.${signature}`)).toBe("signature");
  });
});

it("tolerates clocks that differ by 30 s", async () => {
  const token = await issuer.sign(createClaims({ nbf: clock.now() / 1000 + 29 }));
  expect(await authenticate(token)).toBe("accepted");
  clock.advance(89_999);
  expect(await authenticate(token)).toBe("accepted");
  clock.advance(1);
  expect(await authenticate(token)).toBe("expired");
});
