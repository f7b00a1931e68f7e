// CDN purge: removes responses tagged with a moved alias, through Cloudflare's purge by tag.

import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { cacheTags } from "../cache/cache-policy.ts";
import { httpUrlText, parseConfig } from "../core/config.ts";
import { reasonOf } from "../core/errors.ts";
import { tryParseJson } from "../core/json.ts";
import { DEFAULT_ALIAS } from "../registry/model-ref.ts";
import { cliErrors } from "./errors.ts";

export const purgeArgs = {
  purge: {
    type: "boolean",
    description:
      "Purge the alias's responses from the CDN, with CLOUDFLARE_ZONE_ID and CLOUDFLARE_API_TOKEN; the default if CLOUDFLARE_ZONE_ID is set (--no-purge: do not)",
  },
  settle: {
    type: "string",
    valueHint: "seconds",
    default: "25",
    description:
      "Delay before the second purge, when every isolate serves the new version: a little more than twice EDGETIER_ALIAS_TTL_MS",
  },
} as const;

const schema = z.object({
  CLOUDFLARE_ZONE_ID: z
    .string()
    .regex(/^[0-9a-zA-Z]+$/, "must be a zone's id")
    .optional(),
  CLOUDFLARE_API_TOKEN: z.string().min(1).optional(),
  CLOUDFLARE_API_BASE_URL: httpUrlText().default("https://api.cloudflare.com/client/v4"),
});
const responseSchema = z.object({
  success: z.boolean(),
  errors: z.array(z.object({ message: z.string() })).default([]),
});
const TIMEOUT_MS = 30_000;
const MAX_SETTLE_SECONDS = 600;

export interface PurgeOptions {
  readonly url: string;
  readonly token: string;
  /** Delay between the two purges; 0 skips the second. */
  readonly settleMs: number;
}

/**
 * Reads the purge options. Commands call this before they move an alias, so that errors change nothing.
 * @returns undefined if no purge is wanted
 * @throws usage, invalid_configuration
 */
export function parsePurgeOptions(
  args: { readonly purge?: boolean | undefined; readonly settle: string },
  command: string,
  environment: NodeJS.ProcessEnv = process.env,
): PurgeOptions | undefined {
  const {
    CLOUDFLARE_ZONE_ID: zone,
    CLOUDFLARE_API_TOKEN: token,
    CLOUDFLARE_API_BASE_URL: baseUrl,
  } = parseConfig(schema, environment);
  if (args.purge === false || (args.purge === undefined && zone === undefined)) return undefined;
  if (zone === undefined || token === undefined)
    throw cliErrors.usage(
      "A purge needs CLOUDFLARE_ZONE_ID and CLOUDFLARE_API_TOKEN; set both, or pass --no-purge",
      command,
    );
  const settleSeconds = /^[0-9]+(\.[0-9]+)?$/.test(args.settle) ? Number(args.settle) : Number.NaN;
  if (!(settleSeconds <= MAX_SETTLE_SECONDS))
    throw cliErrors.usage(
      `--settle is ${JSON.stringify(args.settle)}; expected a number of seconds from 0 to ${MAX_SETTLE_SECONDS}`,
      command,
    );
  return { url: `${baseUrl}/zones/${zone}/purge_cache`, token, settleMs: 1_000 * settleSeconds };
}

/** An alias that now points to another version. */
export interface MovedAlias {
  readonly model: string;
  readonly alias: string;
  readonly version: number;
}

/**
 * Purges responses from before the move, twice. Isolates serve the old version until their alias cache expires, and the
 * CDN caches those responses again. The second purge removes them.
 * @throws purge_failed
 */
export async function purgeMovedAlias(
  { model, alias, version }: MovedAlias,
  purge: PurgeOptions,
  log: (line: string) => void,
): Promise<void> {
  // A canary also answers requests to the default alias.
  const tags = [...new Set([alias, DEFAULT_ALIAS])].map((name) => cacheTags.alias(model, name));
  const remedy = `Run \`edgetier model promote ${model} ${version} --alias ${alias} --purge\`, which only purges again`;
  await purgeTags(tags, purge, remedy);
  log(`purged ${tags.join(", ")}`);
  if (purge.settleMs === 0) return;
  log(`second purge in ${purge.settleMs / 1_000} s, when every isolate serves version ${version}`);
  await sleep(purge.settleMs);
  await purgeTags(tags, purge, remedy);
  log(`purged ${tags.join(", ")}`);
}

async function purgeTags(
  tags: readonly string[],
  { url, token }: PurgeOptions,
  remedy: string,
): Promise<void> {
  const fail = (reason: string, cause?: unknown) =>
    cliErrors.purgeFailed(tags, reason, remedy, cause);
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ tags }),
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    text = await response.text();
  } catch (error) {
    throw fail(
      error instanceof Error && error.cause instanceof Error
        ? reasonOf(error.cause)
        : reasonOf(error),
      error,
    );
  }
  const result = responseSchema.safeParse(tryParseJson(text)).data;
  if (!response.ok || result?.success !== true)
    throw fail(
      [
        `the API responded with status ${response.status}`,
        ...(result?.errors.map(({ message }) => message) ?? []),
      ].join(": "),
    );
}
