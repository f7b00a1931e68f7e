// Tokens that somebody made up, and what is heeded of those that are right.
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
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
/** Key ids that were looked up. */
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

const claims = (more: object = {}) =>
  createValidClaims(clock.now(), {
    "https://claims.test/org": "acme",
    permissions: ["predict", "billing"],
    ...more,
  });
const rejectionDetail = async (token: string): Promise<string> =>
  await authenticator.authenticate(token).then(
    () => "let in",
    ({ detail }: Error & { detail: string }) => detail,
  );

it("takes tenant and scopes from the claims that are configured, and passes over scopes of others", async () => {
  expect(await authenticator.authenticate(await issuer.sign(claims()))).toEqual({
    id: "somebody",
    tenant: "acme",
    scopes: ["predict"],
  });
  expect(
    await authenticator.authenticate(
      await issuer.sign(claims({ permissions: undefined, sub: undefined })),
    ),
  ).toEqual({ id: "acme", tenant: "acme", scopes: [] });
  for (const typ of ["at+jwt", "application/at+jwt", undefined])
    expect(await rejectionDetail(await issuer.sign(claims(), { typ }))).toBe("let in");
  expect(
    await rejectionDetail(await issuer.sign(claims({ aud: ["https://other.test", AUDIENCE] }))),
  ).toBe("let in");
});

describe("refuses", () => {
  it.each([
    ["another issuer", { iss: "https://issuer.test" }, "another issuer"],
    ["another audience", { aud: "https://other.test" }, "another audience"],
    ["no audience", { aud: undefined }, "lacks"],
    ["no end", { exp: undefined }, "lacks"],
    ["an end that is no number", { exp: "2100-01-01" }, "lacks"],
    ["what begins later", { nbf: 1_800_000_060 }, "not valid yet"],
    ["no tenant", { "https://claims.test/org": undefined }, "names no tenant"],
    ["a tenant that is no text", { "https://claims.test/org": { a: 1 } }, "names no tenant"],
  ])("%s, and looks for no key", async (_, changed, reason) => {
    expect(await rejectionDetail(await issuer.sign(claims(changed)))).toContain(reason);
    expect(lookedUp).toEqual([]);
  });

  it("`alg: none`, with and without a signature", async () => {
    const unsigned = [{ alg: "none", typ: "JWT", kid: "one" }, claims()]
      .map((part) => base64Url(JSON.stringify(part)))
      .join(".");
    const signature = (await issuer.sign(claims())).split(".")[2] ?? "";
    for (const token of [`${unsigned}.`, `${unsigned}.${signature}`])
      expect(await rejectionDetail(token)).toContain("not signed by RS256");
    expect(lookedUp).toEqual([]);
  });

  it("a secret in place of the key pair, the public key as the secret included", async () => {
    const publicKey = JSON.stringify(issuer.jwks.keys[0]);
    expect(await rejectionDetail(await signWithSecret(claims(), publicKey))).toContain(
      "not signed by RS256",
    );
    const relabelled = (await signWithSecret(claims(), publicKey)).split(".");
    relabelled[0] = base64Url(JSON.stringify({ alg: "RS256", typ: "JWT", kid: "one" }));
    expect(await rejectionDetail(relabelled.join("."))).toContain("signature");
  });

  it("an algorithm that the token chooses for a key that names none (CVE-2026-22817, CVE-2026-22818)", async () => {
    const [key] = issuer.jwks.keys;
    const keys = createStaticKeySet({ keys: [{ ...key, alg: undefined }] }, "RS256");
    const nameless = createJwtAuthenticator({
      issuer: ISSUER,
      audience: AUDIENCE,
      algorithm: "RS256",
      keys,
      clock,
      tenantClaim: "https://claims.test/org",
      scopeClaim: "permissions",
    });
    expect(await nameless.authenticate(await issuer.sign(claims()))).toMatchObject({
      tenant: "acme",
    });
    await expect(
      nameless.authenticate(await signWithSecret(claims(), JSON.stringify(key))),
    ).rejects.toMatchObject({ code: "invalid_credential" });
  });

  it("another algorithm of the same issuer", async () => {
    expect(await rejectionDetail(await (await createTestIssuer("ES256")).sign(claims()))).toContain(
      "not signed by RS256",
    );
    expect(await rejectionDetail(await issuer.sign(claims(), { alg: "RS512" }))).toContain(
      "not signed by RS256",
    );
  });

  it("a key that the token brings along or points at", async () => {
    const forger = await createTestIssuer("RS256");
    const jwk = forger.jwks.keys[0];
    for (const header of [
      { jwk },
      { jku: "https://forger.test/keys", kid: "one" },
      { x5u: "https://forger.test/chain" },
    ]) {
      expect(await rejectionDetail(await forger.sign(claims(), header))).toContain("signature");
    }
    expect(await rejectionDetail(await issuer.sign(claims(), { kid: "two" }))).toContain(
      "key that is not known",
    );
    expect(await rejectionDetail(await issuer.sign(claims(), { kid: undefined }))).toContain(
      "lacks",
    );
    expect(await rejectionDetail(await issuer.sign(claims(), { crit: ["exp"] }))).toContain(
      "header",
    );
  });

  it("other claims under a valid signature", async () => {
    const [header, , signature] = (await issuer.sign(claims())).split(".");
    const body = base64Url(JSON.stringify(claims({ permissions: ["admin"] })));
    expect(await rejectionDetail(`${header}.${body}.${signature}`)).toContain("signature");
  });
});

it("allows for clocks that differ by 30 s", async () => {
  const token = await issuer.sign(claims({ nbf: clock.now() / 1000 + 29 }));
  expect(await rejectionDetail(token)).toBe("let in");
  clock.advance(89_999);
  expect(await rejectionDetail(token)).toBe("let in");
  clock.advance(1);
  expect(await rejectionDetail(token)).toContain("expired");
});
