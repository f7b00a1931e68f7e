// Runs the contract of test/contract/authenticator.ts for each driver, in Node and in workerd.
import type { ManualClock } from "../../src/core/clock.ts";
import { createApiKeyAuthenticator } from "../../src/http/access/drivers/api-key-authenticator.ts";
import { createStaticKeySet } from "../../src/http/access/drivers/jwks.ts";
import { createJwtAuthenticator } from "../../src/http/access/drivers/jwt-authenticator.ts";
import type { JwtAlgorithm } from "../../src/http/access/jwks-schema.ts";
import {
  AUDIENCE,
  ISSUER,
  createTestApiKey,
  createTestIssuer,
  createValidClaims,
} from "../support/test-credentials.ts";
import { authenticatorContract } from "./authenticator.ts";

const createJwtSubject = (algorithm: JwtAlgorithm) => async (clock: ManualClock) => {
  const [issuer, forger] = [await createTestIssuer(algorithm), await createTestIssuer(algorithm)];
  const authenticator = createJwtAuthenticator({
    issuer: ISSUER,
    audience: AUDIENCE,
    algorithm,
    keys: createStaticKeySet({ keys: [...issuer.jwks.keys] }, algorithm),
    clock,
    tenantClaim: "tenant",
    scopeClaim: "scope",
    leewaySeconds: 10,
  });
  const claims = createValidClaims(clock.now());
  return {
    authenticator,
    valid: await issuer.sign(claims),
    forged: await forger.sign(claims),
    endsInMs: 70_000,
    scopes: ["predict", "metadata"] as const,
  };
};

export function allAuthenticatorContracts(platform: string): void {
  authenticatorContract(`API keys${platform}`, async (clock) => {
    const [{ key, entry }, unknown] = [
      await createTestApiKey({ expiresAtMs: clock.now() + 60_000 }),
      await createTestApiKey(),
    ];
    const other = await createTestApiKey({ id: "second", tenant: "other" });
    return {
      authenticator: createApiKeyAuthenticator([other.entry, entry], clock),
      valid: key,
      forged: unknown.key,
      endsInMs: 60_000,
      scopes: ["predict", "metadata"],
    };
  });
  for (const algorithm of ["RS256", "ES256", "EdDSA"] as const)
    authenticatorContract(`JWT by ${algorithm}${platform}`, createJwtSubject(algorithm));
}
