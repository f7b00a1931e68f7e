// `edgetier keys`: the API keys of an edge. A key is shown once; what is configured is its hash.

import { cliErrors } from "../errors.ts";
import { defineCommand } from "citty";
import type * as z from "zod";
import { apiKeyEntrySchema, rateLimitSchema } from "../../http/access/access-config.ts";
import { generateApiKey, hashApiKey } from "../../http/access/api-key.ts";
import { SCOPES } from "../../http/access/authenticator.ts";
import { jsonArg, printJson, printLine } from "../output.ts";

const COMMAND = "edgetier keys create";
const DAY_MS = 86_400_000;

const create = defineCommand({
  meta: {
    name: "create",
    description: "Make an API key: it is shown once, and only its hash is configured",
  },
  args: {
    tenant: {
      type: "string",
      valueHint: "name",
      description: "Whose it is; cached answers never cross from one tenant to another",
      required: true,
    },
    scope: {
      type: "string",
      valueHint: "scopes",
      description: `What it allows, with commas between several: ${SCOPES.join(", ")}`,
      required: true,
    },
    id: {
      type: "string",
      valueHint: "name",
      description: "Name of the key; otherwise the tenant's and the beginning of the hash",
    },
    models: {
      type: "string",
      valueHint: "names",
      description: "The only models that it may ask, with commas between several",
    },
    "rate-limit": {
      type: "string",
      valueHint: "n/seconds",
      description: "In place of EDGETIER_RATE_LIMIT, such as 100/60",
    },
    "expires-in-days": {
      type: "string",
      valueHint: "days",
      description: "After which it is refused; never without it",
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
      `The key, which is not shown again:\n\n  ${key}\n\nIts entry, for the JSON array in the secret EDGETIER_API_KEYS:\n\n  ${JSON.stringify(entry)}\n`,
    );
    printLine("Clients send authorization: Bearer <key>.");
  },
});

/** @throws usage naming every option that is wrong */
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
    throw cliErrors.usage("--expires-in-days: must be a whole number of days", COMMAND);
  return new Date(Date.now() + Number(days) * DAY_MS).toISOString();
}

export const command = defineCommand({
  meta: { name: "keys", description: "The API keys that an edge takes" },
  subCommands: { create },
});
