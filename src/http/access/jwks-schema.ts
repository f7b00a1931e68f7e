// The form of a JSON Web Key Set (RFC 7517, section 5), and the algorithms that its keys may be for: none is symmetric.

import * as z from "zod";

export const JWT_ALGORITHMS = ["RS256", "ES256", "EdDSA"] as const;
export type JwtAlgorithm = (typeof JWT_ALGORITHMS)[number];

/** Each key is looked at when it is imported. */
export const jwksSchema = z.object({ keys: z.array(z.unknown()).min(1).max(100) });
export type Jwks = z.output<typeof jwksSchema>;
