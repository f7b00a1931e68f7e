// JWKS schema: the form of a JSON Web Key Set (RFC 7517, section 5) and the allowed algorithms, all asymmetric.

import * as z from "zod";

export const JWT_ALGORITHMS = ["RS256", "ES256", "EdDSA"] as const;
export type JwtAlgorithm = (typeof JWT_ALGORITHMS)[number];

/** Keys are validated one by one on import. */
export const jwksSchema = z.object({ keys: z.array(z.unknown()).min(1).max(100) });
export type Jwks = z.output<typeof jwksSchema>;
