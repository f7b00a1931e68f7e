// The suite of test/contract/authenticator.ts on each driver: they run in Node and in workerd alike.
import type { ManualClock } from "../../src/core/clock.ts";
import type { Algorithm } from "../../src/http/access/jwks-schema.ts";
import { createApiKeyAuthenticator } from "../../src/http/access/drivers/api-keys.ts";
import { createStaticKeySet } from "../../src/http/access/drivers/jwks.ts";
import { createJwtAuthenticator } from "../../src/http/access/drivers/jwt.ts";
import { AUDIENCE, ISSUER, newApiKey, startIssuer, validClaims } from "../support/credentials.ts";
import { authenticatorContract } from "./authenticator.ts";

const jwtOf = (algorithm: Algorithm) => async (clock: ManualClock) => {
  const [issuer, forger] = [await startIssuer(algorithm), await startIssuer(algorithm)];
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
  const claims = validClaims(clock.now());
  return {
    authenticator,
    valid: await issuer.sign(claims),
    forged: await forger.sign(claims),
    endsInMs: 70_000,
    scopes: ["predict", "metadata"] as const,
  };
};

export function allAuthenticatorContracts(where: string): void {
  authenticatorContract(`API keys${where}`, async (clock) => {
    const [{ key, entry }, unknown] = [
      await newApiKey({ expiresAtMs: clock.now() + 60_000 }),
      await newApiKey(),
    ];
    const other = await newApiKey({ id: "second", tenant: "other" });
    return {
      authenticator: createApiKeyAuthenticator([other.entry, entry], clock),
      valid: key,
      forged: unknown.key,
      endsInMs: 60_000,
      scopes: ["predict", "metadata"],
    };
  });
  for (const algorithm of ["RS256", "ES256", "EdDSA"] as const)
    authenticatorContract(`JWT by ${algorithm}${where}`, jwtOf(algorithm));
}
