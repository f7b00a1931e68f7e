// Triton's model repository extension: the bodies of its requests.
// https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_model_repository.md

import { coreErrors } from "../core/common-errors.ts";
import * as z from "zod";
import { parseMessage } from "./message-schema.ts";

const indexRequestSchema = z.object({ ready: z.boolean().optional() });
/** Not `parameters` of infer requests: a file among them is a long text. */
const loadRequestSchema = z.object({ parameters: z.record(z.string(), z.unknown()).optional() });
const unloadRequestSchema = z.object({
  parameters: z.object({ unload_dependents: z.boolean().optional() }).optional(),
});

/** Body of `POST /v2/repository/index`. @throws invalid_utf8, invalid_json, invalid_request */
export function parseIndexRequest(body: Uint8Array): z.output<typeof indexRequestSchema> {
  return parseOptionalMessage(indexRequestSchema, body);
}

/**
 * Body of `POST /v2/repository/models/{model}/load`. Triton takes a configuration and files in it, in place of the
 * repository's; here, what is served is what was published.
 * @throws invalid_utf8, invalid_json, invalid_request, unsupported
 */
export function validateLoadRequest(body: Uint8Array): void {
  const [parameter] = Object.keys(parseOptionalMessage(loadRequestSchema, body).parameters ?? {});
  if (parameter !== undefined)
    throw coreErrors.unsupported(
      `Load parameter '${parameter.slice(0, 80)}'`,
      "Publish the model with `edgetier model publish`; the operator configures it by EDGETIER_REGION_MODELS.",
    );
}

/** Body of `…/unload`. No model depends on another, so `unload_dependents` changes nothing. @throws invalid_utf8, invalid_json, invalid_request */
export function validateUnloadRequest(body: Uint8Array): void {
  parseOptionalMessage(unloadRequestSchema, body);
}

/** An empty body is `{}`. */
function parseOptionalMessage<Schema extends z.ZodType>(
  schema: Schema,
  body: Uint8Array,
): z.output<Schema> {
  return parseMessage(schema, body.byteLength === 0 ? new TextEncoder().encode("{}") : body);
}
