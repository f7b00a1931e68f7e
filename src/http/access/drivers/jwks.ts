// JWKS: imports the public keys that verify tokens (RFC 7517), from configuration or from one configured URL.

import * as z from "zod";
import type { Clock } from "../../../core/clock.ts";
import { formatZodIssues } from "../../../core/config.ts";
import { readLimited } from "../../../core/read-limited.ts";
import { httpErrors } from "../../errors.ts";
import { type JwtAlgorithm, type Jwks, jwksSchema } from "../jwks-schema.ts";

/** Import parameters and required members per algorithm. Keys are asymmetric; RSA keys have at least 2048 bits. */
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
  /** @returns undefined for an unknown key. @throws identity_unavailable */
  find(kid: string): Promise<CryptoKey | undefined>;
}

/** Skips malformed keys and keys of other kinds, because issuers list keys of several kinds. */
async function importKeys({ keys }: Jwks, algorithm: JwtAlgorithm): Promise<KeysById> {
  const { parameters, key: schema } = KEY_TYPES[algorithm];
  const imported = new Map<string, CryptoKey>();
  for (const candidate of keys) {
    const name = jwkHeaderSchema.safeParse(candidate);
    const key = schema.safeParse(candidate); // drops private members
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
  /** Age at which keys are fetched again. If the fetch fails, the old keys stay in use. */
  readonly ttlMs?: number;
  /** Minimum interval between two fetches, even if tokens name unknown keys. */
  readonly minRefreshIntervalMs?: number;
  readonly onFailure?: (error: unknown) => void;
  /** Waits between two polls of another request's fetch, because workerd forbids awaiting it. */
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
    minRefreshIntervalMs = 30_000,
    pause = sleepPollInterval,
  } = options;
  const fetchKeys = options.fetch ?? ((address, init) => fetch(address, init));
  let keys: KeysById | undefined;
  let fetchedAtMs = Number.NEGATIVE_INFINITY;
  let triedAtMs = Number.NEGATIVE_INFINITY;
  let isFetching = false;

  const isFirstFetchPending = () => keys === undefined && isFetching;

  async function refresh(): Promise<void> {
    triedAtMs = clock.now();
    isFetching = true;
    try {
      keys = await importKeys(await read(), algorithm);
      fetchedAtMs = clock.now();
    } catch (error) {
      options.onFailure?.(error);
    } finally {
      isFetching = false;
    }
  }

  async function read(): Promise<Jwks> {
    const response = await fetchKeys(url, {
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
      // Without keys every token is rejected, so retries come as often as a fetch can time out.
      const isDue = sinceTriedMs >= (keys === undefined ? timeoutMs : minRefreshIntervalMs);
      if ((isOld || keys?.has(kid) !== true) && isDue) await refresh();
      for (let polls = 0; isFirstFetchPending() && polls < timeoutMs / POLL_INTERVAL_MS; polls++)
        await pause();
      if (keys === undefined) throw httpErrors.identityUnavailable();
      return keys.get(kid);
    },
  };
}
