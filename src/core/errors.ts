// Error type of all layers, and the factory that builds errors from a table of statuses and remedies.

import type { ErrorCode } from "./error-code.ts";

export interface ErrorFields {
  readonly code: ErrorCode;
  /** HTTP status. */
  readonly status: number;
  /** The problem, with the value. */
  readonly detail: string;
  /** The reader's next step, as an imperative. */
  readonly remedy: string;
  /** Whether the same request may succeed later without a change. */
  readonly retryable?: boolean;
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
  /** Values for logs and for code that acts on the error. */
  readonly facts?: Readonly<Record<string, string | number>>;
}

/** Expected failure. `message` contains detail and remedy; HTTP layers map it by `status` and `code`. */
export class EdgeTierError extends Error {
  override readonly name = "EdgeTierError";
  readonly code: ErrorCode;
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

export interface ErrorDefinition {
  readonly status: number;
  /** May contain `{placeholders}`, filled from `values`. */
  readonly remedy: string;
  readonly isRetryable?: boolean;
  readonly retryAfterSeconds?: number;
}

/** Status and remedy of each code of one owner. Each code has exactly one owner. */
export type ErrorTable = Readonly<Partial<Record<ErrorCode, ErrorDefinition>>>;

/** Overrides for a single error, and the values for its table's remedy. */
export interface ErrorOptions extends Partial<
  Pick<ErrorFields, "status" | "remedy" | "retryable" | "retryAfterSeconds" | "cause" | "facts">
> {
  /** Values of the remedy's placeholders. */
  readonly values?: Readonly<Record<string, string | number>>;
}

/** Returns the function that makes errors of `table`'s codes. */
export const errorFactory =
  <Table extends ErrorTable>(table: Table) =>
  (
    code: Extract<keyof Table, ErrorCode>,
    detail: string,
    { values = {}, ...options }: ErrorOptions = {},
  ): EdgeTierError => {
    const { isRetryable = false, ...definition } = table[code] as ErrorDefinition;
    const remedy = definition.remedy.replace(/\{(\w+)\}/g, (placeholder, name: string) =>
      String(values[name] ?? placeholder),
    );
    return new EdgeTierError({
      code,
      detail,
      ...definition,
      retryable: isRetryable,
      remedy,
      ...options,
    });
  };

/** Formats an untrusted value so that a message stays short and printable. */
export function formatValue(value: unknown, maxCharacters = 80): string {
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > maxCharacters ? `${text.slice(0, maxCharacters)}…` : text;
}

/** Formats a name in single quotes, as in Triton's messages. */
export const quoteName = (name: string): string => `'${formatValue(name).replace(/^"|"$/g, "")}'`;

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const internalErrorTable = {
  internal: { status: 500, remedy: "Report the request id to the operator." },
} as const satisfies ErrorTable;

const makeInternalError = errorFactory(internalErrorTable);

/** Wraps any thrown value as an EdgeTierError. An unexpected one becomes `internal` and keeps its cause for the log. */
export function asEdgeTierError(error: unknown): EdgeTierError {
  return error instanceof EdgeTierError
    ? error
    : makeInternalError("internal", "An unexpected error occurred.", {
        cause: error,
      });
}
