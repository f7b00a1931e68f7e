// Purging a CDN after an alias has moved: Cloudflare's purge by tag, for what the edge tagged with the alias.

import { cliErrors } from "./errors.ts";
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import { cacheTags } from "../cache/cache-policy.ts";
import { httpUrlText, parseConfig } from "../core/config.ts";
import { reasonOf } from "../core/errors.ts";
import { DEFAULT_ALIAS } from "../registry/model-ref.ts";

export const purgeArgs = {
  purge: {
    type: "boolean",
    description:
      "Purge the CDN of what was asked for by the alias: CLOUDFLARE_ZONE_ID and CLOUDFLARE_API_TOKEN say where; done wherever CLOUDFLARE_ZONE_ID is set, unless --no-purge",
  },
  settle: {
    type: "string",
    valueHint: "seconds",
    default: "25",
    description:
      "Purge once more after so long, when every isolate knows the new version: twice EDGETIER_ALIAS_TTL_MS and a little",
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
const answerSchema = z.object({
  success: z.boolean(),
  errors: z.array(z.object({ message: z.string() })).default([]),
});
const TIMEOUT_MS = 30_000;
const MAX_SETTLE_SECONDS = 600;

export interface PurgeOptions {
  readonly url: string;
  readonly token: string;
  /** Between the two purges; 0: there is only one. */
  readonly settleMs: number;
}

/** @returns undefined where nothing is to be purged @throws usage, invalid_configuration; before anything is moved */
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
      "To purge, CLOUDFLARE_ZONE_ID and CLOUDFLARE_API_TOKEN have to be set; --no-purge leaves it",
      command,
    );
  const settleSeconds = /^[0-9]+(\.[0-9]+)?$/.test(args.settle) ? Number(args.settle) : Number.NaN;
  if (!(settleSeconds <= MAX_SETTLE_SECONDS))
    throw cliErrors.usage(
      `--settle ${args.settle} is not a number of seconds from 0 to ${MAX_SETTLE_SECONDS}`,
      command,
    );
  return { url: `${baseUrl}/zones/${zone}/purge_cache`, token, settleMs: 1_000 * settleSeconds };
}

/** An alias that names another version now. */
export interface MovedAlias {
  readonly model: string;
  readonly alias: string;
  readonly version: number;
}

/**
 * Purges what was answered before the move. Isolates that do not know of it yet go on with the old version for a while, and a CDN
 * keeps that again: so it is purged once more when none is left.
 * @throws purge_failed
 */
export async function purgeMovedAlias(
  { model, alias, version }: MovedAlias,
  purge: PurgeOptions,
  tell: (line: string) => void,
): Promise<void> {
  const tags = [...new Set([alias, DEFAULT_ALIAS])].map((one) => cacheTags.alias(model, one)); // a canary answers for the default alias, too
  const remedy = `\`edgetier model promote ${model} ${version} --alias ${alias} --purge\` purges again and moves nothing`;
  await purgeTags(tags, purge, remedy);
  tell(`purged ${tags.join(", ")}`);
  if (purge.settleMs === 0) return;
  tell(`once more in ${purge.settleMs / 1_000} s, when every isolate knows version ${version}`);
  await sleep(purge.settleMs);
  await purgeTags(tags, purge, remedy);
  tell(`purged ${tags.join(", ")}`);
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
  const answer = answerSchema.safeParse(parseJson(text)).data;
  if (!response.ok || answer?.success !== true)
    throw fail(
      [
        `the API answered ${response.status}`,
        ...(answer?.errors.map(({ message }) => message) ?? []),
      ].join(": "),
    );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
