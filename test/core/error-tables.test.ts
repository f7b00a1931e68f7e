// Checks that every error code has one owner, whose table contains its status and remedy.
import { describe, expect, expectTypeOf, it } from "vitest";
import { cacheErrorTable } from "../../src/cache/errors.ts";
import { cascadeErrorTable } from "../../src/cascade/errors.ts";
import { cliErrorTable } from "../../src/cli/errors.ts";
import { coreErrorTable } from "../../src/core/common-errors.ts";
import type { ErrorCode } from "../../src/core/error-code.ts";
import { EdgeTierError, errorFactory, type ErrorTable } from "../../src/core/errors.ts";
import { processErrorTable } from "../../src/core/process-errors.ts";
import { httpErrorTable } from "../../src/http/errors.ts";
import { protocolErrorTable } from "../../src/protocol/errors.ts";
import { regionErrorTable } from "../../src/region/errors.ts";
import { regionServerErrorTable } from "../../src/region/server/errors.ts";
import { registryErrorTable } from "../../src/registry/errors.ts";
import { publishingErrorTable } from "../../src/registry/publishing-errors.ts";
import { runtimeErrorTable } from "../../src/runtime/errors.ts";
import { nativeErrorTable } from "../../src/runtime/native/errors.ts";
import { servingErrorTable } from "../../src/serving/errors.ts";
import { taskErrorTable } from "../../src/tasks/errors.ts";
import { toolchainErrorTable } from "../../src/toolchain/errors.ts";
import { importErrorTable } from "../../src/toolchain/import/errors.ts";
import { onnxErrorTable } from "../../src/toolchain/onnx/errors.ts";

const tables = {
  cacheErrorTable,
  cascadeErrorTable,
  cliErrorTable,
  coreErrorTable,
  processErrorTable,
  httpErrorTable,
  protocolErrorTable,
  regionErrorTable,
  regionServerErrorTable,
  registryErrorTable,
  publishingErrorTable,
  runtimeErrorTable,
  nativeErrorTable,
  servingErrorTable,
  taskErrorTable,
  toolchainErrorTable,
  importErrorTable,
  onnxErrorTable,
} satisfies Record<string, ErrorTable>;

type KeysOfUnion<Union> = Union extends unknown ? keyof Union : never;
type OwnedCode = KeysOfUnion<(typeof tables)[keyof typeof tables]>;

const entries = Object.entries(tables).flatMap(([owner, table]) =>
  Object.entries(table).map(([code, definition]) => ({ owner, code, definition })),
);

describe("error tables", () => {
  it("own every code but `internal`, which core/errors.ts makes of unexpected errors", () => {
    expectTypeOf<Exclude<ErrorCode, OwnedCode>>().toEqualTypeOf<"internal">();
  });

  it("own no code twice", () => {
    const codes = entries.map(({ code }) => code);
    expect(codes.filter((code, index) => codes.indexOf(code) !== index)).toEqual([]);
  });

  it.each(entries)("$owner: $code has an error status and a remedy in sentences", (entry) => {
    expect(entry.definition.status).toBeGreaterThanOrEqual(400);
    expect(entry.definition.status).toBeLessThan(600);
    expect(entry.definition.remedy).toMatch(/[.}]$/);
  });
});

describe("errorFactory", () => {
  const makeError = errorFactory({
    no_such_tier: { status: 400, remedy: "Use one of {tiers}.", isRetryable: true },
  });

  it("takes status and remedy from the table, and fills the placeholders", () => {
    const error = makeError("no_such_tier", "There is no tier x.", { values: { tiers: "a, b" } });
    expect(error).toBeInstanceOf(EdgeTierError);
    expect(error).toMatchObject({
      code: "no_such_tier",
      status: 400,
      remedy: "Use one of a, b.",
      retryable: true,
      message: "There is no tier x. Use one of a, b.",
    });
  });

  it("lets a single error differ from its table", () => {
    const error = makeError("no_such_tier", "No.", {
      status: 404,
      remedy: "Try.",
      facts: { n: 1 },
    });
    expect(error).toMatchObject({ status: 404, remedy: "Try.", facts: { n: 1 } });
  });
});
