// The public keys that tokens are signed with (RFC 7517): given once, or fetched from the one address that is configured.

import { httpErrors } from "../../errors.ts";
import * as z from "zod";
import type { Clock } from "../../../core/clock.ts";
import { formatZodIssues } from "../../../core/config.ts";
import { readLimited } from "../../../core/read-limited.ts";
import { type JwtAlgorithm, type Jwks, jwksSchema } from "../jwks-schema.ts";

/** How a key of each is imported, and what it has to be: nothing symmetric, and RSA from 2048 bits on. */
const KEY_TYPES = {
  RS256: {
    parameters: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
    key: z.object({ kty: z.literal("RSA"), n: z.string().min(342), e: z.string() }),
  },
  ES256: {
    parameters: { name: "ECDSA", namedCurve: "P-256" },
    key: z.object({ kty: z.literal("EC"), crv: z.literal("P-256"), x: z.string(), y: z.string() }),
  },
  EdDSA: {
    parameters: { name: "Ed25519" },
    key: z.object({ kty: z.literal("OKP"), crv: z.literal("Ed25519"), x: z.string() }),
  },
} as const;

const jwkHeaderSchema = z.object({
  kid: z.string().min(1),
  alg: z.string().optional(),
  use: z.string().optional(),
});

type KeysById = ReadonlyMap<string, CryptoKey>;

export interface KeySet {
  /** @returns undefined where there is no such key. @throws identity_unavailable */
  find(kid: string): Promise<CryptoKey | undefined>;
}

/** What is no signing key of this algorithm, or is broken, is passed over: issuers list keys of several kinds. */
async function importKeys({ keys }: Jwks, algorithm: JwtAlgorithm): Promise<KeysById> {
  const { parameters, key: schema } = KEY_TYPES[algorithm];
  const imported = new Map<string, CryptoKey>();
  for (const candidate of keys) {
    const name = jwkHeaderSchema.safeParse(candidate);
    const key = schema.safeParse(candidate); // its public members only
    if (
      !name.success ||
      !key.success ||
      (name.data.use ?? "sig") !== "sig" ||
      (name.data.alg ?? algorithm) !== algorithm
    )
      continue;
    const publicKey = await crypto.subtle
      .importKey("jwk", key.data, parameters, false, ["verify"])
      .catch(() => undefined);
    if (publicKey !== undefined) imported.set(name.data.kid, publicKey);
  }
  return imported;
}

export function createStaticKeySet(jwks: Jwks, algorithm: JwtAlgorithm): KeySet {
  let keys: KeysById | undefined;
  return {
    async find(kid) {
      keys ??= await importKeys(jwks, algorithm);
      return keys.get(kid);
    },
  };
}

export interface RemoteKeySetOptions {
  readonly url: string;
  readonly algorithm: JwtAlgorithm;
  readonly clock: Clock;
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
  readonly timeoutMs?: number;
  /** After that they are fetched again; where that fails, the old ones serve on. */
  readonly ttlMs?: number;
  /** Between two fetches, however many tokens name keys that are not known. */
  readonly minRefreshIntervalMs?: number;
  readonly onFailure?: (error: unknown) => void;
  /** Between two looks at another request's fetch, which workerd forbids to await. */
  readonly pause?: () => Promise<void>;
}

const MAX_BYTES = 65_536;
const POLL_INTERVAL_MS = 5;
const sleepPollInterval = () =>
  new Promise<void>((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));

export function createRemoteKeySet(options: RemoteKeySetOptions): KeySet {
  const {
    url,
    algorithm,
    clock,
    timeoutMs = 2_000,
    ttlMs = 600_000,
    minRefreshIntervalMs: minIntervalMs = 30_000,
    pause = sleepPollInterval,
  } = options;
  const fetchIt = options.fetch ?? ((address, init) => fetch(address, init));
  let keys: KeysById | undefined;
  let fetchedAtMs = Number.NEGATIVE_INFINITY;
  let triedAtMs = Number.NEGATIVE_INFINITY;
  let fetching = false;

  const areComing = () => keys === undefined && fetching;

  async function refresh(): Promise<void> {
    triedAtMs = clock.now();
    fetching = true;
    try {
      keys = await importKeys(await read(), algorithm);
      fetchedAtMs = clock.now();
    } catch (error) {
      options.onFailure?.(error);
    } finally {
      fetching = false;
    }
  }

  async function read(): Promise<Jwks> {
    const response = await fetchIt(url, {
      headers: { accept: "application/json" },
      redirect: "manual",
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new Error(`status ${response.status}`);
    }
    const bytes = await readLimited(response.body, MAX_BYTES);
    if (bytes === undefined) throw new Error(`more than ${MAX_BYTES} bytes`);
    const parsed = jwksSchema.safeParse(JSON.parse(new TextDecoder().decode(bytes)));
    if (!parsed.success) throw new Error(formatZodIssues(parsed.error).join("; "));
    return parsed.data;
  }

  return {
    async find(kid) {
      const sinceTriedMs = clock.now() - triedAtMs;
      const isOld = clock.now() - fetchedAtMs >= ttlMs;
      // Without any keys nobody can be let in, so it is tried more often; a fetch never takes longer than that.
      const isDue = sinceTriedMs >= (keys === undefined ? timeoutMs : minIntervalMs);
      if ((isOld || keys?.has(kid) !== true) && isDue) await refresh();
      for (let looks = 0; areComing() && looks < timeoutMs / POLL_INTERVAL_MS; looks++)
        await pause();
      if (keys === undefined) throw httpErrors.identityUnavailable();
      return keys.get(kid);
    },
  };
}
