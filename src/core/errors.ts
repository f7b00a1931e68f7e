// Every error EdgeTier raises on purpose: its code, HTTP status, message and remedy. Nothing else defines an error.

export interface ErrorFields {
  readonly code: string;
  readonly status: number;
  /** What was wrong, with the value. */
  readonly detail: string;
  /** What the reader can do about it. */
  readonly remedy: string;
  /** Whether the same request may succeed later without a change. */
  readonly retryable?: boolean;
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
  /** For logs and for code that acts on the error. */
  readonly facts?: Readonly<Record<string, string | number>>;
}

/** An expected failure. `message` holds detail and remedy; HTTP layers map it by `status` and `code`. */
export class EdgeTierError extends Error {
  override readonly name = "EdgeTierError";
  readonly code: string;
  readonly status: number;
  readonly detail: string;
  readonly remedy: string;
  readonly retryable: boolean;
  readonly retryAfterSeconds: number | undefined;
  readonly facts: Readonly<Record<string, string | number>>;

  constructor(fields: ErrorFields) {
    super(`${fields.detail} ${fields.remedy}`, { cause: fields.cause });
    this.code = fields.code;
    this.status = fields.status;
    this.detail = fields.detail;
    this.remedy = fields.remedy;
    this.retryable = fields.retryable ?? false;
    this.retryAfterSeconds = fields.retryAfterSeconds;
    this.facts = fields.facts ?? {};
  }
}

const make = (
  code: string,
  status: number,
  detail: string,
  remedy: string,
  more: Pick<ErrorFields, "retryable" | "retryAfterSeconds" | "cause" | "facts"> = {},
): EdgeTierError => new EdgeTierError({ code, status, detail, remedy, ...more });

/** Cuts a value that came from outside so that a message stays short and printable. */
export function shown(value: unknown, maxCharacters = 80): string {
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > maxCharacters ? `${text.slice(0, maxCharacters)}…` : text;
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Any thrown value as an EdgeTierError; what was not expected becomes `internal`, with its cause kept for the log. */
export function asEdgeTierError(error: unknown): EdgeTierError {
  return error instanceof EdgeTierError ? error : errors.internal(error);
}

export type SnapshotRefusal = "truncated" | "corrupt" | "no_snapshot" | "other_format" | "bad_header" | "other_engine" | "other_model" | "other_choices";

export const errors = {
  // Requests: 4xx
  invalidJson: (reason: string) =>
    make("invalid_json", 400, `The body is not valid JSON: ${reason}.`, 'Send a JSON object such as {"inputs": "some text"}.'),
  invalidUtf8: (where: string) =>
    make("invalid_utf8", 400, `${where} is not valid UTF-8.`, "Encode text as UTF-8."),
  invalidRequest: (problems: readonly string[]) =>
    make("invalid_request", 400, `The request is not valid: ${problems.join("; ")}.`, "See /openapi.json for the schema."),
  missingInput: () =>
    make("missing_input", 400, "The query has no 'input' parameter.", "Add ?input=some+text, or POST a JSON body."),
  emptyText: (index: number) =>
    make("empty_text", 400, `Input ${index} is empty or only white space.`, "Send at least one visible character."),
  inputTooLarge: (index: number, bytes: number, maxBytes: number) =>
    make("input_too_large", 413, `Input ${index} has ${bytes} bytes; this model takes at most ${maxBytes}.`, "Shorten the input."),
  tooManyInputs: (count: number, maxInputs: number) =>
    make("too_many_inputs", 413, `The request has ${count} inputs; at most ${maxInputs} are taken at once.`, "Split it into several requests."),
  bodyTooLarge: (maxBytes: number) =>
    make("body_too_large", 413, `The body is larger than ${maxBytes} bytes.`, "Send fewer or shorter inputs in one request."),
  unsupportedMediaType: (mediaType: string, allowed: readonly string[]) =>
    make("unsupported_media_type", 415, `The media type ${shown(mediaType)} is not taken here.`, `Use one of: ${allowed.join(", ")}.`),
  methodNotAllowed: (method: string, allowed: readonly string[]) =>
    make("method_not_allowed", 405, `${method} is not possible here.`, `Use ${allowed.join(", ")}.`),
  routeNotFound: (path: string) =>
    make("route_not_found", 404, `There is nothing at ${shown(path)}.`, "See /docs for the routes."),
  invalidModelRef: (ref: string) =>
    make("invalid_model_name", 400, `${shown(ref)} is not a model name.`, "Use name, name@version or name@alias: lower-case letters, digits, '-', '_', '.', at most 64 characters."),
  modelNotFound: (model: string) =>
    make("model_not_found", 404, `There is no model ${shown(model)}.`, "GET /v1/models lists what is served; `edgetier model publish` adds one."),
  versionNotFound: (model: string, version: number) =>
    make("version_not_found", 404, `Model ${shown(model)} has no version ${version}.`, `GET /v1/models/${model} lists its versions.`),
  aliasNotFound: (model: string, alias: string) =>
    make("alias_not_found", 404, `Model ${shown(model)} has no alias ${shown(alias)}.`, `GET /v1/models/${model} lists its aliases.`),
  takesTensors: (model: string) =>
    make("takes_tensors", 400, `Model ${shown(model)} takes tensors, and gives tensors.`, `Use POST /v2/models/${model}/infer.`),
  noSuchTier: (model: string, tier: string, tiers: readonly string[]) =>
    make("no_such_tier", 400, `Model ${shown(model)} has no tier ${shown(tier)}.`, `Its tiers are: ${tiers.join(", ")}.`),
  invalidTensor: (name: string, reason: string) =>
    make("invalid_tensor", 400, `Tensor ${shown(name)}: ${reason}.`, "GET /v2/models/{model} describes the inputs."),
  invalidDeadline: (value: string) =>
    make("invalid_deadline", 400, `The deadline ${shown(value)} is not a whole number of milliseconds from 1 to 600000.`, "Send x-deadline-ms: 250, or leave it out."),

  // Serving: 5xx
  storeUnavailable: (reason: string, cause?: unknown) =>
    make("model_store_unavailable", 503, `The model store cannot be read: ${reason}.`, "Try again shortly; the operator should check the S3 endpoint and credentials.", { retryable: true, retryAfterSeconds: 1, cause }),
  artifactCorrupt: (digest: string, reason: string) =>
    make("artifact_corrupt", 503, `Artifact ${digest.slice(0, 12)}… was refused: ${reason}.`, "The operator should publish the model again.", { retryable: true, retryAfterSeconds: 10 }),
  manifestInvalid: (model: string, version: number, problems: readonly string[]) =>
    make("manifest_invalid", 503, `The manifest of ${model}@${version} is not valid: ${problems.join("; ")}.`, "The operator should publish the model again.", { retryable: true, retryAfterSeconds: 10 }),
  aliasesInvalid: (model: string, problems: readonly string[]) =>
    make("aliases_invalid", 503, `The aliases of ${model} are not valid: ${problems.join("; ")}.`, `The operator should correct or delete models/${model}/aliases.json in the store.`, { retryable: true, retryAfterSeconds: 10 }),
  preprocessorInvalid: (kind: string, problems: readonly string[]) =>
    make("preprocessor_invalid", 503, `The artifact of a ${kind} preprocessor is not valid: ${problems.join("; ")}.`, "The operator should publish the model again.", { retryable: true, retryAfterSeconds: 10 }),
  regionUnavailable: (reason: string, cause?: unknown) =>
    make("region_unavailable", 503, `The region cannot answer: ${reason}.`, "Try again shortly.", { retryable: true, retryAfterSeconds: 1, cause }),
  regionRefused: (status: number, reason: string) =>
    make("region_refused", 502, `The region refused the request with status ${status}: ${reason}.`, "The operator should check that edge and region serve the same model store."),
  deadlineExceeded: (deadlineMs: number) =>
    make("deadline_exceeded", 504, `No tier could answer within ${deadlineMs} ms.`, "Allow more time with x-deadline-ms.", { retryable: true }),
  sessionFailed: (reason: string, cause?: unknown) =>
    make("session_failed", 500, `ONNX Runtime failed: ${reason.trim().replace(/\.+$/, "")}.`, "The operator should check the model with `edgetier model inspect`.", { cause }),
  requestExpired: () =>
    make("request_expired", 503, "Request timeout expired.", "Allow more time, or ask another region.", { retryable: true }),
  requestCancelled: () =>
    make("request_cancelled", 499, "The client has left before its request was answered.", "Send the request again if the answer is still wanted.", { retryable: true }),
  queueFull: (maxQueued: number) =>
    make("queue_full", 503, `Exceeds maximum queue size of ${maxQueued}.`, "Send fewer requests at once, or ask another region.", { retryable: true, retryAfterSeconds: 1 }),
  noRegionTier: (model: string, version: number) =>
    make("no_region_tier", 404, `Model ${shown(model)} has no region tier in version ${version}.`, "Ask the edge, which serves its tiers."),
  modelNotReady: (model: string) =>
    make("model_not_ready", 400, `Model ${shown(model)} is not ready.`, "It is being loaded; ask again shortly.", { retryable: true, retryAfterSeconds: 1 }),
  modelUnloaded: (model: string) =>
    make("model_unloaded", 404, `Model ${shown(model)} was unloaded from this region.`, "POST /v2/repository/models/{model}/load loads it again; another region may still serve it."),
  draining: () =>
    make("draining", 503, "This server is shutting down.", "Send the request again; another instance will take it.", { retryable: true, retryAfterSeconds: 1 }),
  engineTrap: (action: string, reason: string, cause: unknown) =>
    make("engine_trap", 500, `The engine broke off while ${action}: ${reason}.`, "Another instance takes its place; the operator should check the model with `edgetier model inspect`.", { cause }),
  functionCut: (cut: { readonly function: number } | { readonly slot: number }, cause?: unknown) =>
    make("function_cut", 500, `The engine was cut of ${"slot" in cut ? `the function in slot ${cut.slot}` : `function ${cut.function}`}, which this input needs.`, "The operator should pass the log to `edgetier engine build --traps` and deploy again.", { cause, facts: { ...cut } }),
  snapshotRefused: (reason: SnapshotRefusal) =>
    make("snapshot_refused", 503, `The snapshot was refused: ${reason}.`, "The model is loaded without it; make it again for the engine that is deployed.", { facts: { reason } }),
  notDeterministic: () =>
    make("not_deterministic", 400, "The model answers the same input in two ways.", "A snapshot would freeze its random numbers: serve it from the region, or with the full engine."),
  tierNotServable: (tier: string, reason: string) =>
    make("tier_not_servable", 503, `Tier ${tier} cannot run at this edge: ${reason}.`, "The region answers instead; the operator should run `edgetier engine build` and deploy again."),
  sessionTooLarge: (bytes: number, budgetBytes: number) =>
    make("session_too_large", 503, `The session takes ${bytes} bytes; this isolate has ${budgetBytes} for all.`, "The operator should raise edgetier.sessionBudgetBytes in package.json, or serve the model from the region."),
  internal: (cause: unknown) =>
    make("internal", 500, "Something went wrong that should not have.", "Report the request id to the operator.", { cause }),

  // Configuration and command line
  invalidConfiguration: (problems: readonly string[]) =>
    make("invalid_configuration", 500, `The configuration is not valid:\n${problems.map((problem) => `  - ${problem}`).join("\n")}\n`, "Correct these variables and start again."),
  portInUse: (what: string, port: number, variable: string) =>
    make("port_in_use", 500, `Port ${port} for the ${what} is in use.`, `Stop what listens there, or choose another: ${variable}=<port>.`),
  componentFailed: (what: string, reason: string, cause?: unknown) =>
    make("component_failed", 500, `The ${what} did not start: ${reason}.`, "See the output above it.", { cause }),
  componentDied: (what: string, how: string) =>
    make("component_died", 500, `The ${what} ended unexpectedly (${how}).`, "See the output above it, and start again."),
  notMeasured: (what: string, reason: string, cause?: unknown) =>
    make("not_measured", 500, `${what} could not be measured: ${reason}.`, "Correct that and run `edgetier doctor` again.", { cause }),
  limitExceeded: (what: string, measured: number, limit: number, unit: string, remedy: string) =>
    make("limit_exceeded", 400, `${what}: ${measured} ${unit}, and the limit is ${limit}.`, remedy, { facts: { measured, limit, unit } }),
  interrupted: (by: string) => make("interrupted", 499, `Stopped by ${by} before it was done.`, "Run it again."),
  usage: (problem: string, command: string) => make("usage", 400, `${problem}.`, `\`${command} --help\` tells how it is used.`),
  edgeUnreachable: (url: string, reason: string, cause?: unknown) =>
    make("edge_unreachable", 503, `Nothing answers at ${url}: ${reason}.`, "Start the local system with `npm start`, or name another with --url.", { retryable: true, cause }),
  edgeRefused: (code: string, status: number, detail: string, remedy: string) => make(code, status, detail, remedy),
  invalidProject: (path: string, problems: readonly string[]) =>
    make("invalid_project", 400, `${path} is not a valid model project: ${problems.join("; ")}.`, "See models/intent/model.json for an example."),
  unsafePath: (path: string) =>
    make("unsafe_path", 400, `The path ${shown(path)} leaves the model's folder.`, "Keep artifacts inside the model project."),
  versionExists: (model: string, version: number) =>
    make("version_exists", 409, `Version ${version} of ${model} exists with other content.`, "Versions never change: publish again to make a new one.", { retryable: true }),
  aliasConflict: (model: string) =>
    make("alias_conflict", 409, `The aliases of ${model} were changed by someone else meanwhile.`, "Look at them and try again.", { retryable: true }),
  unsupported: (what: string, remedy: string) => make("unsupported", 501, `${what} is not supported.`, remedy),
} as const;
