// `edgetier keys`: creates API keys for an edge. A key is shown once, and only its hash is configured.

import { defineCommand } from "citty";
import type * as z from "zod";
import { apiKeyEntrySchema, rateLimitSchema } from "../../http/access/access-config.ts";
import { generateApiKey, hashApiKey } from "../../http/access/api-key.ts";
import { SCOPES } from "../../http/access/authenticator.ts";
import { cliErrors } from "../errors.ts";
import { jsonArg, printJson, printLine } from "../output.ts";

const COMMAND = "edgetier keys create";
const DAY_MS = 86_400_000;

const create = defineCommand({
  meta: {
    name: "create",
    description: "Create an API key, which is shown once; only its hash is configured",
  },
  args: {
    tenant: {
      type: "string",
      valueHint: "name",
      description: "Tenant of the key; tenants never share cached answers",
      required: true,
    },
    scope: {
      type: "string",
      valueHint: "scopes",
      description: `Comma-separated scopes: ${SCOPES.join(", ")}`,
      required: true,
    },
    id: {
      type: "string",
      valueHint: "name",
      description: "Id of the key; by default the tenant and the start of the hash",
    },
    models: {
      type: "string",
      valueHint: "names",
      description: "Comma-separated models that the key may call; by default all",
    },
    "rate-limit": {
      type: "string",
      valueHint: "n/seconds",
      description: "Rate limit such as 100/60; by default EDGETIER_RATE_LIMIT",
    },
    "expires-in-days": {
      type: "string",
      valueHint: "days",
      description: "Lifetime of the key in days; by default unlimited",
    },
    ...jsonArg,
  },
  async run({ args }) {
    const key = generateApiKey();
    const sha256 = await hashApiKey(key);
    const entry = parseArgument(apiKeyEntrySchema, {
      id: args.id ?? `${args.tenant.slice(0, 48)}-${sha256.slice(0, 8)}`,
      sha256,
      tenant: args.tenant,
      scopes: args.scope.split(","),
      ...(args["rate-limit"] === undefined
        ? {}
        : { rateLimit: parseArgument(rateLimitSchema, args["rate-limit"], "--rate-limit") }),
      ...(args.models === undefined ? {} : { models: args.models.split(",") }),
      ...(args["expires-in-days"] === undefined
        ? {}
        : { expiresAt: formatExpiry(args["expires-in-days"]) }),
    });
    if (args.json) return printJson({ key, entry });
    printLine(
      `API key, shown only now:\n\n  ${key}\n\nEntry for the JSON array in the secret EDGETIER_API_KEYS:\n\n  ${JSON.stringify(entry)}\n`,
    );
    printLine("Clients send the header `authorization: Bearer <key>`.");
  },
});

/** Parses a value with a schema. @throws usage, which names every invalid option */
function parseArgument<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  option?: string,
): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw cliErrors.usage(
    result.error.issues
      .map(
        ({ path, message }) =>
          `${option ?? `--${String(path[0]).replace(/^scopes$/, "scope")}`}: ${message}`,
      )
      .join("; "),
    COMMAND,
  );
}

function formatExpiry(days: string): string {
  if (!/^\d{1,5}$/.test(days) || days === "0")
    throw cliErrors.usage(
      `--expires-in-days is ${JSON.stringify(days)}; expected a whole number of days from 1`,
      COMMAND,
    );
  return new Date(Date.now() + Number(days) * DAY_MS).toISOString();
}

export const command = defineCommand({
  meta: { name: "keys", description: "Create API keys for an edge" },
  subCommands: { create },
});
