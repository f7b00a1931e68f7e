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

/** For this file, and those beside it with errors that no Worker raises. */
export const make = (
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

/** A name as Triton writes it: in single quotes. */
const quoted = (name: string) => `'${shown(name).replace(/^"|"$/g, "")}'`;
const forModel = (model: string | undefined) =>
  model === undefined ? "" : ` for model ${quoted(model)}`;
const dimensions = (shape: readonly number[]) => `[${shape.join(",")}]`;

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Any thrown value as an EdgeTierError; what was not expected becomes `internal`, with its cause kept for the log. */
export function asEdgeTierError(error: unknown): EdgeTierError {
  return error instanceof EdgeTierError ? error : errors.internal(error);
}

export type SnapshotRefusal =
  | "truncated"
  | "corrupt"
  | "no_snapshot"
  | "other_format"
  | "bad_header"
  | "other_engine"
  | "other_model"
  | "other_choices";

export const errors = {
  // Requests: 4xx
  invalidJson: (reason: string) =>
    make(
      "invalid_json",
      400,
      `The body is not valid JSON: ${reason}.`,
      'Send a JSON object such as {"inputs": "some text"}.',
    ),
  invalidUtf8: (where: string) =>
    make("invalid_utf8", 400, `${where} is not valid UTF-8.`, "Encode text as UTF-8."),
  invalidRequest: (problems: readonly string[]) =>
    make(
      "invalid_request",
      400,
      `The request is not valid: ${problems.join("; ")}.`,
      "See /openapi.json for the schema.",
    ),
  repeatedParameter: (name: string) =>
    make(
      "repeated_parameter",
      400,
      `The query has the parameter ${shown(name)} more than once.`,
      "Give it once; POST or QUERY takes several inputs.",
    ),
  missingInput: () =>
    make(
      "missing_input",
      400,
      "The query has no 'input' parameter.",
      "Add ?input=some+text, or POST a JSON body.",
    ),
  emptyText: (index: number) =>
    make(
      "empty_text",
      400,
      `Input ${index} is empty or only white space.`,
      "Send at least one visible character.",
    ),
  invalidImage: (index: number, reason: string, cause?: unknown) =>
    make(
      "invalid_image",
      400,
      `Input ${index} cannot be read as an image: ${reason}.`,
      "Send a whole JPEG or PNG file.",
      { cause },
    ),
  unsupportedImage: (index: number, what: string) =>
    make(
      "unsupported_image",
      415,
      `Input ${index} is ${what}, which is not taken.`,
      "Convert it to a JPEG in RGB or grey, or to a PNG.",
    ),
  imageTooLarge: (index: number, width: number, height: number, maxPixels: number) =>
    make(
      "image_too_large",
      413,
      `Input ${index} is ${width} x ${height}; this model takes at most ${maxPixels} pixels.`,
      "Make the image smaller.",
    ),
  imageTooLargeHere: (index: number, bytes: number, maxBytes: number) =>
    make(
      "image_too_large_here",
      413,
      `Decoding input ${index} takes ${bytes} bytes of memory, and may take ${maxBytes} here.`,
      "Make the image smaller; the operator can raise edgetier.imageMemoryBytes in package.json, or add a region tier, which has more.",
    ),
  inputTooLarge: (index: number, bytes: number, maxBytes: number) =>
    make(
      "input_too_large",
      413,
      `Input ${index} has ${bytes} bytes; this model takes at most ${maxBytes}.`,
      "Shorten the input.",
    ),
  tooManyInputs: (count: number, maxInputs: number) =>
    make(
      "too_many_inputs",
      413,
      `The request has ${count} inputs; at most ${maxInputs} are taken at once.`,
      "Split it into several requests.",
    ),
  bodyTooLarge: (maxBytes: number) =>
    make(
      "body_too_large",
      413,
      `The body is larger than ${maxBytes} bytes.`,
      "Send fewer or shorter inputs in one request.",
    ),
  unsupportedMediaType: (mediaType: string, allowed: readonly string[]) =>
    make(
      "unsupported_media_type",
      415,
      `The media type ${shown(mediaType)} is not taken here.`,
      `Use one of: ${allowed.join(", ")}.`,
    ),
  unsupportedEncoding: (encoding: string) =>
    make(
      "unsupported_encoding",
      415,
      `Unsupported compression type: content-encoding ${shown(encoding)}.`,
      "Use gzip or deflate, or send the body as it is.",
    ),
  methodNotAllowed: (method: string, allowed: readonly string[]) =>
    make(
      "method_not_allowed",
      405,
      `Method Not Allowed: ${method} is not possible here.`,
      `Use ${allowed.join(", ")}.`,
    ),
  routeNotFound: (path: string) =>
    make(
      "route_not_found",
      404,
      `There is nothing at ${shown(path)}.`,
      "See /docs for the routes.",
    ),
  invalidModelRef: (ref: string) =>
    make(
      "invalid_model_name",
      400,
      `${shown(ref)} is not a model name.`,
      "Use name, name@version or name@alias: lower-case letters, digits, '-', '_', '.', at most 64 characters.",
    ),
  modelNotFound: (model: string) =>
    make(
      "model_not_found",
      404,
      `Request for unknown model: ${quoted(model)} is not found.`,
      "GET /v1/models of the edge and POST /v2/repository/index of a region list what there is; `edgetier model publish` adds one.",
    ),
  versionNotFound: (model: string, version: number) =>
    make(
      "version_not_found",
      404,
      `Request for unknown model: ${quoted(model)} version ${version} is not found.`,
      `GET /v1/models/${model} of the edge and /v2/models/${model} of a region list its versions.`,
    ),
  aliasNotFound: (model: string, alias: string) =>
    make(
      "alias_not_found",
      404,
      `Model ${shown(model)} has no alias ${shown(alias)}.`,
      `GET /v1/models/${model} lists its aliases.`,
    ),
  noReport: (model: string, version: number) =>
    make(
      "no_report",
      404,
      `Version ${version} of model ${shown(model)} has no report.`,
      "`edgetier model calibrate` writes one, and `edgetier model publish` publishes it with the next version.",
    ),
  takesTensors: (model: string) =>
    make(
      "takes_tensors",
      400,
      `Model ${shown(model)} takes tensors, and gives tensors.`,
      `Use POST /v2/models/${model}/infer.`,
    ),
  givesEmbeddings: (model: string) =>
    make(
      "gives_embeddings",
      400,
      `Model ${shown(model)} gives embeddings, and no labels.`,
      "Use POST /v1/embeddings.",
    ),
  givesNoEmbeddings: (model: string, task: string) =>
    make(
      "gives_no_embeddings",
      400,
      `Model ${shown(model)} has the task ${task}, and gives no embeddings.`,
      "Name a model whose task is embedding: GET /v1/models lists what there is.",
    ),
  missingModel: () =>
    make(
      "missing_model",
      400,
      "The request names no model, and there is none by default.",
      'Send {"model": "<name>"}; the operator can set EDGETIER_EMBEDDING_MODEL.',
    ),
  invalidTokens: (id: number, pieces: number) =>
    make(
      "invalid_tokens",
      400,
      `An input has the token ${id}; this model's are from 0 to ${pieces - 1}.`,
      "Use the model's own tokenizer, or send the text.",
    ),
  tooManyTokens: (count: number, maxTokens: number) =>
    make(
      "too_many_tokens",
      413,
      `The inputs have ${count} tokens; at most ${maxTokens} are taken at once.`,
      "Split them into several requests.",
    ),
  invalidDimensions: (dimensions: number, most: number) =>
    make(
      "invalid_dimensions",
      400,
      `The dimensions ${dimensions} are more than this model's ${most}.`,
      `Ask for 1 to ${most}, or leave it out.`,
    ),
  noSuchTier: (model: string, tier: string, tiers: readonly string[]) =>
    make(
      "no_such_tier",
      400,
      `Model ${shown(model)} has no tier ${shown(tier)}.`,
      `Its tiers are: ${tiers.join(", ")}.`,
    ),
  invalidTensor: (name: string, reason: string) =>
    make(
      "invalid_tensor",
      400,
      `Tensor ${shown(name)}: ${reason}.`,
      "GET /v2/models/{model} describes the inputs.",
    ),
  invalidDeadline: (value: string) =>
    make(
      "invalid_deadline",
      400,
      `The deadline ${shown(value)} is not a whole number of milliseconds from 1 to 600000.`,
      "Send x-deadline-ms: 250, or leave it out.",
    ),

  // Access: who may ask what, and how often
  missingCredential: () =>
    make(
      "missing_credential",
      401,
      "This needs a credential, and the request has none.",
      "Send authorization: Bearer <key>; the operator makes keys with `edgetier keys create`.",
    ),
  invalidCredential: (reason: string) =>
    make(
      "invalid_credential",
      401,
      `The credential was refused: ${reason}.`,
      "Send a valid one as authorization: Bearer <key>; the operator makes keys with `edgetier keys create`.",
    ),
  missingScope: (scope: string, has: readonly string[]) =>
    make(
      "missing_scope",
      403,
      `This needs the scope ${scope}; the credential has ${has.length === 0 ? "none" : has.join(", ")}.`,
      "Ask the operator for a credential with that scope.",
    ),
  modelNotAllowed: (model: string) =>
    make(
      "model_not_allowed",
      403,
      `The credential is not for the model ${shown(model)}.`,
      "GET /v1/models lists those that it is for.",
    ),
  rateLimited: (requests: number, windowSeconds: number, retryAfterSeconds: number) =>
    make(
      "rate_limited",
      429,
      `More than ${requests} requests within ${windowSeconds} s.`,
      "Wait as long as retry-after says.",
      { retryable: true, retryAfterSeconds },
    ),
  identityUnavailable: () =>
    make(
      "identity_unavailable",
      503,
      "The credential cannot be checked: the keys of the tokens' issuer cannot be fetched.",
      "Try again shortly; the operator should check EDGETIER_JWT_JWKS_URL.",
      { retryable: true, retryAfterSeconds: 2 },
    ),

  // Requests of the Open Inference Protocol: the details are in Triton's words, which its clients look for.
  unparsableJson: (reason: string) =>
    make(
      "invalid_json",
      400,
      `failed to parse the request JSON buffer: ${reason}.`,
      "Send a JSON object, as the Open Inference Protocol v2 has it.",
    ),
  unparsableFields: (problems: readonly string[]) =>
    make(
      "invalid_request",
      400,
      `Unable to parse ${problems.map((problem) => problem.replace(/^[^:]*/, quoted)).join("; ")}.`,
      "See the Open Inference Protocol v2 for the fields.",
    ),
  badJsonLength: (text: string) =>
    make(
      "invalid_request",
      400,
      `Unable to parse Inference-Header-Content-Length, got: ${shown(text)}.`,
      "It is the number of bytes of JSON at the beginning of the body; 0 for a raw binary request.",
    ),
  jsonLengthOutOfRange: (length: number, bodyBytes: number) =>
    make(
      "invalid_request",
      400,
      `inference header size should be in range (0, ${bodyBytes}), got: ${length}.`,
      "Inference-Header-Content-Length is the number of bytes of JSON at the beginning of the body; 0 for a raw binary request.",
    ),
  missingBinaryData: (input: string, missingBytes: number, model?: string) =>
    make(
      "invalid_request",
      400,
      `unexpected size for input ${quoted(input)}, expecting ${missingBytes} additional bytes${forModel(model)}.`,
      "The tensors' bytes follow the JSON, in its order.",
    ),
  extraBinaryData: (extraBytes: number, model?: string) =>
    make(
      "invalid_request",
      400,
      `unexpected additional input data for model${model === undefined ? "" : ` ${quoted(model)}`}: ${extraBytes} bytes.`,
      "Each binary_data_size tells how many of the bytes are its input's.",
    ),
  dataInSeveralForms: (input: string, forms: readonly string[]) =>
    make(
      "invalid_tensor",
      400,
      `Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But ${forms.length === 0 ? "no field is set" : `set ${forms.map(quoted).join(" ")}`}: ${quoted(input)}.`,
      "Send the tensor's data once.",
    ),
  noJsonForm: (datatype: string, input: string) =>
    make(
      "invalid_tensor",
      400,
      `receiving ${datatype} data via JSON is not supported. Please use the binary data format for input ${quoted(input)}.`,
      "Send it by binary_data_size.",
    ),
  wrongElementCount: (input: string, count: number, shape: readonly number[]) =>
    make(
      "invalid_tensor",
      400,
      `Unable to parse 'data': Shape does not match true shape of 'data' field: ${quoted(input)} has ${count} elements, its shape is ${dimensions(shape)}.`,
      "Send as many elements as the shape has, flat or nested.",
    ),
  wrongByteSize: (input: string, expectedBytes: number, bytes: number, model?: string) =>
    make(
      "invalid_tensor",
      400,
      `input byte size mismatch for input ${quoted(input)}${forModel(model)}. Expected ${expectedBytes}, got ${bytes}.`,
      "Send as many bytes as shape and datatype have.",
    ),
  wrongStringCount: (input: string, expected: number, found: number | string, model?: string) =>
    make(
      "invalid_tensor",
      400,
      `expected ${expected} string elements for inference input ${quoted(input)}${forModel(model)}, got ${found}.`,
      "Send as many strings as the shape has elements.",
    ),
  cutOffStringLength: (input: string, bytes: number, model?: string) =>
    make(
      "invalid_tensor",
      400,
      `incomplete string length indicator for inference input ${quoted(input)}${forModel(model)}, expecting 4 bytes but only ${bytes} bytes available.`,
      "A string is its length as uint32, little-endian, and its bytes.",
    ),
  cutOffString: (input: string, length: number, bytes: number, model?: string) =>
    make(
      "invalid_tensor",
      400,
      `incomplete string data for inference input ${quoted(input)}${forModel(model)}, expecting string of length ${length} but only ${bytes} bytes available.`,
      "A string is its length as uint32, little-endian, and its bytes.",
    ),
  wrongInputs: (model: string, expected: readonly string[], found: readonly string[]) => {
    const missing = expected.filter((name) => !found.includes(name));
    const list = (names: readonly string[]) => `[${names.slice(0, 32).map(quoted).join(",")}]`;
    const what =
      missing.length === 0
        ? ""
        : `, but missing required input(s) ${list(missing)}. Please provide all required input(s)`;
    return make(
      "invalid_tensor",
      400,
      `expected ${expected.length} inputs but got ${found.length} inputs for model ${quoted(model)}. Got input(s) ${list(found)}${what}.`,
      `GET /v2/models/${model} describes them.`,
    );
  },
  unclassifiable: (output: string, datatype: string, shape: readonly number[]) =>
    make(
      "invalid_tensor",
      400,
      `class result not available for output due to unsupported type '${datatype}': ${quoted(output)} of shape ${dimensions(shape)}.`,
      "Ask for its values instead.",
    ),
  repeatedTensor: (kind: "input" | "output", name: string) =>
    make(
      "invalid_tensor",
      400,
      `${kind} ${quoted(name)} already exists in request.`,
      "Name each once.",
    ),
  unexpectedInput: (model: string, input: string) =>
    make(
      "invalid_tensor",
      400,
      `unexpected inference input ${quoted(input)} for model ${quoted(model)}.`,
      `GET /v2/models/${model} describes the inputs.`,
    ),
  unexpectedOutput: (model: string, output: string) =>
    make(
      "invalid_tensor",
      400,
      `unexpected inference output ${quoted(output)} for model ${quoted(model)}.`,
      `GET /v2/models/${model} describes the outputs.`,
    ),
  wrongDatatype: (model: string, input: string, found: string, expected: string) =>
    make(
      "invalid_tensor",
      400,
      `inference input ${quoted(input)} data-type is '${found}', but model ${quoted(model)} expects '${expected}'.`,
      `GET /v2/models/${model} describes the inputs.`,
    ),
  wrongShape: (
    model: string,
    input: string,
    found: readonly number[],
    expected: readonly number[],
  ) =>
    make(
      "invalid_tensor",
      400,
      `unexpected shape for input ${quoted(input)} for model ${quoted(model)}. Expected ${dimensions(expected)}, got ${dimensions(found)}.`,
      "The first dimension is the batch where the model has one; -1 stands for any.",
    ),
  rawNeedsOneInput: (inputs: number, model?: string) =>
    make(
      "invalid_request",
      400,
      `Raw request must only have 1 input to be deduced but got ${inputs} inputs${model === undefined ? "" : ` in ${quoted(model)} model configuration`}.`,
      "Name the inputs in a JSON header.",
    ),
  rawShapeUnknown: (input: string) =>
    make(
      "invalid_tensor",
      400,
      `The shape of the raw input ${quoted(input)} can not be deduced because there are more than one variable-sized dimension.`,
      "Give the shape in a JSON header.",
    ),
  reservedParameter: (name: string) =>
    make(
      "invalid_request",
      400,
      `parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified: ${quoted(name)}.`,
      "Leave it out.",
    ),
  notLoaded: (model: string, version?: number) =>
    make(
      "not_loaded",
      400,
      version === undefined
        ? `requested model ${quoted(model)} is not available: no version of it is loaded.`
        : `requested model version is not available for model ${quoted(model)}: version ${version} is not loaded.`,
      "It is loaded with its first request.",
    ),
  loadFailed: (model: string, cause: EdgeTierError) => {
    const { code, status, detail, remedy, retryable, retryAfterSeconds } = cause;
    const why = code === "model_not_found" ? "failed to poll from model repository." : detail;
    return make(code, status, `failed to load ${quoted(model)}, ${why}`, remedy, {
      retryable,
      cause,
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    });
  },

  // Trust between edge and region
  signatureRefused: (reason: string) =>
    make(
      "signature_refused",
      401,
      `The request's signature was refused: ${reason}.`,
      "Requests to this region are signed (RFC 9421, hmac-sha256) with a key of its EDGETIER_REGION_KEYS; an edge has it as EDGETIER_REGION_KEY, and a clock that is right.",
    ),
  noncesFull: (maxNonces: number) =>
    make(
      "nonces_full",
      503,
      `This region remembers ${maxNonces} signed requests, and cannot tell a further one from one that is sent again.`,
      "Send fewer requests, or ask another region; the operator can raise EDGETIER_REGION_MAX_NONCES.",
      { retryable: true, retryAfterSeconds: 1 },
    ),

  // Serving: 5xx
  storeUnavailable: (reason: string, cause?: unknown) =>
    make(
      "model_store_unavailable",
      503,
      `The model store cannot be read: ${reason}.`,
      "Try again shortly; the operator should check the S3 endpoint and credentials.",
      { retryable: true, retryAfterSeconds: 1, cause },
    ),
  artifactCorrupt: (digest: string, reason: string) =>
    make(
      "artifact_corrupt",
      503,
      `Artifact ${digest.slice(0, 12)}… was refused: ${reason}.`,
      "The operator should publish the model again.",
      { retryable: true, retryAfterSeconds: 10 },
    ),
  manifestInvalid: (model: string, version: number, problems: readonly string[]) =>
    make(
      "manifest_invalid",
      503,
      `The manifest of ${model}@${version} is not valid: ${problems.join("; ")}.`,
      "The operator should publish the model again.",
      { retryable: true, retryAfterSeconds: 10 },
    ),
  manifestUntrusted: (model: string, version: number, reason: string) =>
    make(
      "manifest_untrusted",
      503,
      `The manifest of ${model}@${version} is not trusted: ${reason}.`,
      "The operator should publish the model again, signed with a key of EDGETIER_TRUSTED_KEYS.",
      { retryable: true, retryAfterSeconds: 10 },
    ),
  aliasesInvalid: (model: string, problems: readonly string[]) =>
    make(
      "aliases_invalid",
      503,
      `The aliases of ${model} are not valid: ${problems.join("; ")}.`,
      `The operator should correct or delete models/${model}/aliases.json in the store.`,
      { retryable: true, retryAfterSeconds: 10 },
    ),
  preprocessorInvalid: (kind: string, problems: readonly string[]) =>
    make(
      "preprocessor_invalid",
      503,
      `The artifact of a ${kind} preprocessor is not valid: ${problems.join("; ")}.`,
      "The operator should publish the model again.",
      { retryable: true, retryAfterSeconds: 10 },
    ),
  regionUnavailable: (reason: string, cause?: unknown, facts?: ErrorFields["facts"]) =>
    make("region_unavailable", 503, `The region cannot answer: ${reason}.`, "Try again shortly.", {
      retryable: true,
      retryAfterSeconds: 1,
      cause,
      ...(facts && { facts }),
    }),
  noRegionOpen: (openForMs: number) =>
    make(
      "region_unavailable",
      503,
      "No region is asked at present: the last calls to each of them have failed.",
      "Try again shortly; GET /v1/regions tells how they are.",
      { retryable: true, retryAfterSeconds: Math.max(1, Math.ceil(openForMs / 1_000)) },
    ),
  regionRefused: (status: number, reason: string) =>
    make(
      "region_refused",
      502,
      `The region refused the request with status ${status}: ${reason}.`,
      "The operator should check that edge and region serve the same model store.",
    ),
  overloaded: (maxInFlight: number, status: 429 | 503, retryAfterSeconds: number) =>
    make(
      "overloaded",
      status,
      `${maxInFlight} requests are being answered here already, and no more are taken.`,
      "Try again shortly; the operator can raise EDGETIER_MAX_IN_FLIGHT.",
      { retryable: true, retryAfterSeconds },
    ),
  deadlineExceeded: (deadlineMs: number) =>
    make(
      "deadline_exceeded",
      504,
      `No tier could answer within ${deadlineMs} ms.`,
      "Allow more time with x-deadline-ms.",
      { retryable: true },
    ),
  deadlineTooNear: (tier: string, remainingMs: number, p95Ms: number) =>
    make(
      "deadline_too_near",
      504,
      `Tier ${tier} takes up to ${Math.ceil(p95Ms)} ms, and ${Math.floor(remainingMs)} ms are left.`,
      "Allow more time with x-deadline-ms.",
      { retryable: true },
    ),
  tierSaturated: (tier: string) =>
    make("tier_saturated", 503, `Tier ${tier} has more to do than it can.`, "Try again shortly.", {
      retryable: true,
      retryAfterSeconds: 1,
    }),
  sessionFailed: (reason: string, cause?: unknown) =>
    make(
      "session_failed",
      500,
      `ONNX Runtime failed: ${reason.trim().replace(/\.+$/, "")}.`,
      "The operator should check the model with `edgetier model inspect`.",
      { cause },
    ),
  sessionLost: (how: string) =>
    make(
      "session_lost",
      503,
      `The worker of this model's session ended ${how} before it had answered.`,
      "Send the request again: another worker takes its place.",
      { retryable: true, retryAfterSeconds: 1 },
    ),
  sessionBeingReplaced: () =>
    make(
      "session_being_replaced",
      503,
      "This model's session is being started again.",
      "Send the request again shortly, or ask another region.",
      { retryable: true, retryAfterSeconds: 1 },
    ),
  sessionNotReplaced: (tries: number, reason: string, cause: unknown) =>
    make(
      "session_not_replaced",
      503,
      `This model's session could not be started again in ${tries} tries: ${reason.trim().replace(/\.+$/, "")}.`,
      "Ask another region; the operator should look at the log, and load the model again.",
      { retryable: true, retryAfterSeconds: 30, cause },
    ),
  providerTooSlow: (limitMs: number) =>
    make(
      "provider_too_slow",
      503,
      `It did not answer within ${limitMs} ms.`,
      "Allow more time for it, or take it off the list.",
    ),
  providerUnavailable: (provider: string, reason: string, remedy: string) =>
    make(
      "provider_unavailable",
      503,
      `The execution provider ${provider} cannot be used: ${reason.trim().replace(/\.+$/, "")}.`,
      remedy,
    ),
  requestExpired: () =>
    make(
      "request_expired",
      503,
      "Request timeout expired.",
      "Allow more time, or ask another region.",
      { retryable: true },
    ),
  requestCancelled: () =>
    make(
      "request_cancelled",
      499,
      "The client has left before its request was answered.",
      "Send the request again if the answer is still wanted.",
      { retryable: true },
    ),
  queueFull: (maxQueued: number) =>
    make(
      "queue_full",
      503,
      `Exceeds maximum queue size of ${maxQueued}.`,
      "Send fewer requests at once, or ask another region.",
      { retryable: true, retryAfterSeconds: 1 },
    ),
  noRegionTier: (model: string, version: number) =>
    make(
      "no_region_tier",
      404,
      `Model ${shown(model)} has no region tier in version ${version}.`,
      "Ask the edge, which serves its tiers.",
    ),
  modelNotReady: (model: string) =>
    make(
      "model_not_ready",
      400,
      `Model version not ready: ${quoted(model)}.`,
      "It is being loaded; ask again shortly.",
      { retryable: true, retryAfterSeconds: 1 },
    ),
  modelUnloaded: (model: string) =>
    make(
      "model_unloaded",
      404,
      `Request for unknown model: ${quoted(model)} has no available versions; it was unloaded from this region.`,
      "POST /v2/repository/models/{model}/load loads it again; another region may still serve it.",
    ),
  versionUnavailable: (model: string, version: number, reason: string) =>
    make(
      "version_unavailable",
      404,
      `Version ${version} of model ${shown(model)} is not available: ${reason}.`,
      "POST /v2/repository/index lists what is; the operator chooses by EDGETIER_REGION_MODELS.",
    ),
  warmupFailed: (name: string, tier: string, reason: string, cause: unknown) =>
    make(
      "warmup_failed",
      503,
      `Warm-up ${shown(name)} of tier ${tier} failed: ${reason}`,
      "The operator should correct the tier's warm-up inputs, or publish the model again.",
      { retryable: true, retryAfterSeconds: 10, cause },
    ),
  modelTooLarge: (model: string, bytes: number, budgetBytes: number) =>
    make(
      "model_too_large",
      503,
      `${model} takes ${bytes} bytes; this region has ${budgetBytes} for all models.`,
      "Ask another region; the operator should raise EDGETIER_REGION_MODEL_BUDGET_BYTES, or serve it with fewer instances.",
      { facts: { bytes, budgetBytes } },
    ),
  noRoom: (model: string, bytes: number) =>
    make(
      "no_room",
      503,
      `There is no room for ${model}, which takes ${bytes} bytes: all that is loaded is in use.`,
      "Try again shortly, or ask another region; the operator should raise EDGETIER_REGION_MODEL_BUDGET_BYTES.",
      { retryable: true, retryAfterSeconds: 1, facts: { bytes } },
    ),
  draining: () =>
    make(
      "draining",
      503,
      "This server is shutting down.",
      "Send the request again; another instance will take it.",
      { retryable: true, retryAfterSeconds: 1 },
    ),
  engineTrap: (action: string, reason: string, cause: unknown) =>
    make(
      "engine_trap",
      500,
      `The engine broke off while ${action}: ${reason}.`,
      "Another instance takes its place; the operator should check the model with `edgetier model inspect`.",
      { cause },
    ),
  functionCut: (cut: { readonly function: number } | { readonly slot: number }, cause?: unknown) =>
    make(
      "function_cut",
      500,
      `The engine was cut of ${"slot" in cut ? `the function in slot ${cut.slot}` : `function ${cut.function}`}, which this input needs.`,
      "The operator should pass the log to `edgetier engine build --traps` and deploy again.",
      { cause, facts: { ...cut } },
    ),
  snapshotRefused: (reason: SnapshotRefusal) =>
    make(
      "snapshot_refused",
      503,
      `The snapshot was refused: ${reason}.`,
      "The model is loaded without it; make it again for the engine that is deployed.",
      { facts: { reason } },
    ),
  notDeterministic: () =>
    make(
      "not_deterministic",
      400,
      "The model answers the same input in two ways.",
      "A snapshot would freeze its random numbers: serve it from the region, or with the full engine.",
    ),
  tierNotServable: (tier: string, reason: string) =>
    make(
      "tier_not_servable",
      503,
      `Tier ${tier} cannot run at this edge: ${reason}.`,
      "The region answers instead; the operator should run `edgetier engine build` and deploy again.",
    ),
  noImageDecoder: () =>
    make(
      "no_image_decoder",
      503,
      "This Worker was deployed without image decoders.",
      "The region answers instead; the operator should run `edgetier engine build` with the model's project and deploy again.",
    ),
  sessionTooLarge: (bytes: number, budgetBytes: number) =>
    make(
      "session_too_large",
      503,
      `The session takes ${bytes} bytes; this isolate has ${budgetBytes} for all.`,
      "The operator should raise edgetier.sessionBudgetBytes in package.json, or serve the model from the region.",
    ),
  cacheTooSlow: (timeoutMs: number) =>
    make(
      "cache_too_slow",
      503,
      `The cache did not answer within ${timeoutMs} ms.`,
      "Requests are answered without it.",
    ),
  notCached: (inputs: number) =>
    make(
      "not_cached",
      504,
      `No cache has the answer to ${inputs} of the inputs, and none may be computed.`,
      "Leave out cache-control: only-if-cached.",
    ),
  metricsUnavailable: (cause: unknown) =>
    make(
      "metrics_unavailable",
      503,
      `What is counted cannot be read: ${reasonOf(cause)}.`,
      "Ask again shortly: requests are answered meanwhile, and counted.",
      { retryable: true, retryAfterSeconds: 1, cause },
    ),
  internal: (cause: unknown) =>
    make(
      "internal",
      500,
      "Something went wrong that should not have.",
      "Report the request id to the operator.",
      { cause },
    ),

  // Configuration and command line
  invalidConfiguration: (problems: readonly string[]) =>
    make(
      "invalid_configuration",
      500,
      `The configuration is not valid:\n${problems.map((problem) => `  - ${problem}`).join("\n")}\n`,
      "Correct these variables and start again.",
    ),
  portInUse: (what: string, port: number, variable: string) =>
    make(
      "port_in_use",
      500,
      `Port ${port} for the ${what} is in use.`,
      `Stop what listens there, or choose another: ${variable}=<port>.`,
    ),
  componentFailed: (what: string, reason: string, cause?: unknown) =>
    make(
      "component_failed",
      500,
      `The ${what} did not start: ${reason}.`,
      "See the output above it.",
      { cause },
    ),
  componentDied: (what: string, how: string) =>
    make(
      "component_died",
      500,
      `The ${what} ended unexpectedly (${how}).`,
      "See the output above it, and start again.",
    ),
  notMeasured: (what: string, reason: string, cause?: unknown) =>
    make(
      "not_measured",
      500,
      `${what} could not be measured: ${reason}.`,
      "Correct that and run `edgetier doctor` again.",
      { cause },
    ),
  limitExceeded: (what: string, measured: number, limit: number, unit: string, remedy: string) =>
    make(
      "limit_exceeded",
      400,
      `${what}: ${measured} ${unit}, and the limit is ${limit}.`,
      remedy,
      { facts: { measured, limit, unit } },
    ),
  interrupted: (by: string) =>
    make("interrupted", 499, `Stopped by ${by} before it was done.`, "Run it again."),
  usage: (problem: string, command: string) =>
    make("usage", 400, `${problem}.`, `\`${command} --help\` tells how it is used.`),
  edgeUnreachable: (url: string, reason: string, cause?: unknown) =>
    make(
      "edge_unreachable",
      503,
      `Nothing answers at ${url}: ${reason}.`,
      "Start the local system with `npm start`, or name another address.",
      { retryable: true, cause },
    ),
  edgeRefused: (code: string, status: number, detail: string, remedy: string) =>
    make(code, status, detail, remedy),
  invalidProject: (path: string, problems: readonly string[]) =>
    make(
      "invalid_project",
      400,
      `${path} is not a valid model project: ${problems.join("; ")}.`,
      "See models/intent/model.json for an example.",
    ),
  invalidModelFile: (reason: string) =>
    make(
      "invalid_model_file",
      400,
      `This is not a valid ONNX model: ${reason.replace(/\.$/, "")}.`,
      "Check that the file arrived whole, and with `onnx.checker` in Python.",
    ),
  externalData: (tensor: string, location: string) =>
    make(
      "external_data",
      400,
      `Tensor ${shown(tensor)} has its data in another file, ${shown(location)}.`,
      "Save the model with all data in one file: in Python, onnx.save(onnx.load(path), path).",
    ),
  externalDataRefused: (tensor: string, location: string, reason: string) =>
    make(
      "external_data",
      400,
      `Tensor ${shown(tensor)} has its data in ${shown(location)}, which ${reason}.`,
      "Put the file whole into the model's folder and name it by a relative path; or save the model with all data in one file: in Python, onnx.save(onnx.load(path), path).",
    ),
  notCuttable: (value: string, reason: string) =>
    make(
      "not_cuttable",
      400,
      `The graph cannot be cut at ${shown(value)}: ${reason}.`,
      "Cut at values that nodes make, by the graph's names; onnx.shape_inference.infer_shapes in Python stores their types.",
    ),
  unknownPass: (name: string, known: readonly string[]) =>
    make(
      "unknown_pass",
      400,
      `There is no pass ${shown(name)}.`,
      `There are: ${known.join(", ")}.`,
    ),
  outputsChanged: (problems: readonly string[]) =>
    make(
      "outputs_changed",
      400,
      `The graph does not answer as before: ${problems.join("; ")}.`,
      "Leave a pass out to find which one changes it, or allow more with --tolerance if that much is nothing to the model.",
    ),
  modelFileUnreadable: (path: string, reason: string) =>
    make(
      "model_file_unreadable",
      400,
      `${path} cannot be read: ${reason}.`,
      "Name an ONNX file that is there.",
    ),
  modelFileTooLarge: (file: string, bytes: number, maxBytes: number) =>
    make(
      "model_file_too_large",
      413,
      `${file} has ${bytes} bytes with its data; a model may have ${maxBytes}.`,
      "Make it smaller first: quantise it, or export it in FP16.",
    ),
  invalidTensorSamples: (path: string, reason: string) =>
    make(
      "invalid_tensor_samples",
      400,
      `${path} has no samples that this model takes: ${reason}.`,
      'Give a file with one {"inputs": [{"name", "shape", "data"}]} a line, or a folder with input_0.pb, input_1.pb and so on in it.',
    ),
  projectExists: (folder: string) =>
    make(
      "project_exists",
      409,
      `There is a model project in ${folder}.`,
      "Name another folder with --out, or overwrite it with --replace.",
    ),
  projectNotWritten: (folder: string, reason: string, cause?: unknown) =>
    make(
      "project_not_written",
      400,
      `${folder} cannot be written: ${reason}.`,
      "Name another folder with --out.",
      { cause },
    ),
  notImportable: (file: string, problems: readonly string[], remedies: readonly string[]) =>
    make(
      "not_importable",
      400,
      `${file} cannot be imported: ${problems.join("; ")}.`,
      remedies.join(" "),
    ),
  notConvertible: (reason: string, remedy: string) =>
    make("not_convertible", 400, `This graph cannot be made FP16: ${reason}.`, remedy),
  notComparable: (reason: string, cause?: unknown) =>
    make(
      "not_comparable",
      400,
      `The graph does not run on made-up inputs: ${reason.replace(/\.$/, "")}.`,
      "Compare the two graphs on inputs of your own.",
      { cause },
    ),
  notQuantisable: (reason: string, remedy: string) =>
    make(
      "not_quantisable",
      400,
      `This graph cannot be quantised: ${reason.replace(/\.$/, "")}.`,
      remedy,
    ),
  agreementMissed: (agreement: number, bound: number, kept: number) =>
    make(
      "agreement_missed",
      400,
      `Only ${(100 * agreement).toFixed(1)} % of the samples have the same argmax, with ${kept} layers in FP32; ${(100 * bound).toFixed(1)} % are wanted.`,
      "Calibrate otherwise (--calibration, --correct-biases, --equalise), give more samples, or lower --min-agreement.",
    ),
  fp16Overflow: (lost: readonly string[]) =>
    make(
      "fp16_overflow",
      400,
      `In FP16, numbers are not finite that are in FP32: ${lost.join(", ")}.`,
      "Keep what makes them in FP32, with --keep and its operator or name.",
    ),
  invalidSamples: (path: string, problems: readonly string[]) =>
    make(
      "invalid_samples",
      400,
      `${path} has no samples to judge a model on: ${problems.join("; ").replace(/\.$/, "")}.`,
      'Give a file with one {"text", "label"} or {"file", "label"} a line, or a folder with the files of each label in a folder of its name.',
    ),
  notJudgeable: (model: string, task: string) =>
    make(
      "not_judgeable",
      400,
      `${model} has the task ${task}: it gives no label to be right or wrong.`,
      "Judge it by a client of its own, or give it a classification task.",
    ),
  sloMissed: (model: string, classMs: number, p99Ms: number) =>
    make(
      "slo_missed",
      400,
      `${model} promises a p99 of ${classMs} ms, and has one of ${p99Ms.toFixed(2)} ms here.`,
      "Raise sloMs in its model.json, or make its tiers faster: `edgetier model profile` shows where the time goes.",
    ),
  riskNotReached: (
    bound: { readonly what: string; readonly epsilon: number; readonly delta: number },
    had: { readonly tested: number; readonly all: number; readonly deadlineMs: number | undefined },
    would: { readonly samples: number | undefined; readonly epsilon: number | undefined },
  ) =>
    make(
      "risk_not_reached",
      400,
      `No early exit holds a risk of ${bound.epsilon} (${bound.what}) with confidence ${1 - bound.delta} on ${had.tested} tested samples of ${had.all}${had.deadlineMs === undefined ? "" : `: no exits keep the tiers within the deadline of ${had.deadlineMs} ms`}.`,
      [
        ...(would.samples === undefined ? [] : [`Give ${would.samples} samples or more.`]),
        ...(would.epsilon === undefined ? [] : [`Allow an epsilon of ${would.epsilon} or more.`]),
        ...(had.deadlineMs === undefined ? [] : ["Raise deadlineMs, or make the tiers faster."]),
        "Or send everything to the last tier, with --or-top-only.",
      ].join(" "),
    ),
  notDistillable: (reason: string, remedy: string) =>
    make("not_distillable", 400, `Nothing can be distilled: ${reason.replace(/\.$/, "")}.`, remedy),
  invalidTrainingSamples: (path: string, problems: readonly string[], form: string) =>
    make(
      "invalid_training_samples",
      400,
      `${path} has no samples that a student can learn: ${problems.join("; ").replace(/\.$/, "")}.`,
      `Give ${form}.`,
    ),
  invalidPruning: (problem: string) =>
    make(
      "invalid_pruning",
      400,
      `${problem}.`,
      "A ratio is the share to prune, such as 0.3; `edgetier model prune --ratio 0 --json` lists the layers and groups.",
    ),
  nothingToPrune: (reasons: readonly string[]) =>
    make(
      "nothing_to_prune",
      400,
      `Nothing in this graph can be pruned: ${reasons.slice(0, 8).join("; ") || "it has no convolution or matrix product with constant weights in FP32"}.`,
      "Prune an FP32 graph, before it is quantised, with its constants folded.",
    ),
  pruningBudget: (budget: number, least: number) =>
    make(
      "pruning_budget",
      400,
      `A budget of ${Math.round(budget)} cannot be kept: pruned as far as was measured, the graph still costs ${Math.round(least)}.`,
      "Raise the budget, or measure larger ratios.",
      { facts: { budget, least } },
    ),
  unsafePath: (path: string) =>
    make(
      "unsafe_path",
      400,
      `The path ${shown(path)} leaves the model's folder.`,
      "Keep artifacts inside the model project.",
    ),
  versionExists: (model: string, version: number) =>
    make(
      "version_exists",
      409,
      `Version ${version} of ${model} exists with other content.`,
      "Versions never change: publish again to make a new one.",
      { retryable: true },
    ),
  aliasConflict: (model: string) =>
    make(
      "alias_conflict",
      409,
      `The aliases of ${model} were changed by someone else meanwhile.`,
      "Look at them and try again.",
      { retryable: true },
    ),
  wouldNotBeTrusted: (reason: string) =>
    make(
      "would_not_be_trusted",
      400,
      `The manifest would be refused by those who read it: ${reason}.`,
      "Sign it with a key of EDGETIER_TRUSTED_KEYS: --sign-key <file>, or EDGETIER_SIGNING_KEYS.",
    ),
  invalidSigningKey: (where: string) =>
    make(
      "invalid_signing_key",
      400,
      `${where} has no Ed25519 private key in PKCS #8.`,
      "`edgetier model keys generate` makes one; `openssl genpkey -algorithm ed25519` does as well.",
    ),
  nothingBefore: (model: string, alias: string) =>
    make(
      "nothing_before",
      409,
      `It is not known what the alias ${shown(alias)} of ${model} named before.`,
      "`edgetier model promote` moves it to any version; `edgetier model list` shows them.",
    ),
  unsupported: (what: string, remedy: string) =>
    make("unsupported", 501, `${what} is not supported.`, remedy),
} as const;
