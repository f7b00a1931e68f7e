// Parses the request bodies of Triton's model repository extension.
// https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_model_repository.md

import * as z from "zod";
import { coreErrors } from "../core/common-errors.ts";
import { parseMessage } from "./message-schema.ts";

const indexRequestSchema = z.object({ ready: z.boolean().optional() });
/** Does not use the `parameters` schema of infer requests, because a file among them is a long string. */
const loadRequestSchema = z.object({ parameters: z.record(z.string(), z.unknown()).optional() });
const unloadRequestSchema = z.object({
  parameters: z.object({ unload_dependents: z.boolean().optional() }).optional(),
});

/** Parses the body of `POST /v2/repository/index`. @throws invalid_utf8, invalid_json, invalid_request */
export function parseIndexRequest(body: Uint8Array): z.output<typeof indexRequestSchema> {
  return parseOptionalMessage(indexRequestSchema, body);
}

/**
 * Validates the body of `POST /v2/repository/models/{model}/load`. Triton accepts a configuration and files that
 * replace the repository's. EdgeTier rejects them, because it serves published models only.
 * @throws invalid_utf8, invalid_json, invalid_request, unsupported
 */
export function validateLoadRequest(body: Uint8Array): void {
  const [parameter] = Object.keys(parseOptionalMessage(loadRequestSchema, body).parameters ?? {});
  if (parameter !== undefined)
    throw coreErrors.unsupported(
      `Load parameter '${parameter.slice(0, 80)}'`,
      "Publish the model with `edgetier model publish`, and configure it with EDGETIER_REGION_MODELS.",
    );
}

/**
 * Validates the body of `POST /v2/repository/models/{model}/unload`. Models have no dependents here, so
 * `unload_dependents` has no effect.
 * @throws invalid_utf8, invalid_json, invalid_request
 */
export function validateUnloadRequest(body: Uint8Array): void {
  parseOptionalMessage(unloadRequestSchema, body);
}

/** Parses a message; an empty body counts as `{}`. */
function parseOptionalMessage<Schema extends z.ZodType>(
  schema: Schema,
  body: Uint8Array,
): z.output<Schema> {
  return parseMessage(schema, body.byteLength === 0 ? new TextEncoder().encode("{}") : body);
}
