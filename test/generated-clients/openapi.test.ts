// OpenAPI document: the linter accepts it, and generated clients compile.
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { buildOpenApiDocument } from "../../src/http/openapi.ts";
import {
  compileKotlin,
  compileSwift,
  generateClient,
  hasSwift,
  compilerSkipReason,
  generatorSkipReason,
  writeOpenApiDocument,
} from "./generate-client.ts";

let folder: string;
let document: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-clients-"));
  document = await writeOpenApiDocument(folder);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it("has no problems by the linter", async () => {
  const redocly = join(PROJECT_ROOT, "node_modules/@redocly/cli/bin/cli.js");
  const config = join(PROJECT_ROOT, "test/generated-clients/redocly.yaml");
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [redocly, "lint", document, "--config", config, "--format", "json"],
    { env },
  );
  expect(JSON.parse(stdout)).toMatchObject({ totals: { errors: 0, warnings: 0 }, problems: [] });
});

it("has unique operation ids, and a name for every schema of generated code", () => {
  const { paths, components } = buildOpenApiDocument();
  const ids = Object.values(paths).flatMap((operations) =>
    Object.values(operations).map(({ operationId }) => operationId),
  );
  expect(new Set(ids).size).toBe(ids.length);
  expect(Object.keys(components.schemas)).toEqual(
    expect.arrayContaining([
      "PredictInput",
      "ImageInput",
      "PredictOutput",
      "LabelScore",
      "TierUse",
      "Region",
      "TierDetail",
      "TensorSpec",
    ]),
  );
});

describe("OpenAPI Generator", () => {
  it("generates a Swift client", async ({ skip }) => {
    const skipReason = await generatorSkipReason();
    skip(skipReason !== undefined, skipReason);
    await generateClient("swift6", document, join(folder, "swift"));
    const models = await readdir(join(folder, "swift/Sources/EdgeTier/Models"));
    expect(models).toEqual(
      expect.arrayContaining(["PredictOutput.swift", "PredictInput.swift", "Problem.swift"]),
    );
    // The union keeps its types: a text or an image.
    expect(
      await readFile(join(folder, "swift/Sources/EdgeTier/Models/PredictInput.swift"), "utf8"),
    ).toMatch(
      /case typeImageInput\(ImageInput\)[\s\S]*case typeString\(String\)|case typeString\(String\)[\s\S]*case typeImageInput\(ImageInput\)/,
    );
  }, 120_000);

  it("generates a Swift client that compiles", async ({ skip }) => {
    const skipReason =
      (await generatorSkipReason()) ?? ((await hasSwift()) ? undefined : "swift is not installed");
    skip(skipReason !== undefined, skipReason);
    await compileSwift(join(folder, "swift"));
    expect(await readdir(join(folder, "swift/.build/debug/Modules"))).toContain(
      "EdgeTier.swiftmodule",
    );
  }, 300_000);

  it("generates a Kotlin client that compiles", async ({ skip }) => {
    const skipReason = await compilerSkipReason();
    skip(skipReason !== undefined, skipReason);
    await generateClient("kotlin", document, join(folder, "kotlin"));
    await compileKotlin(join(folder, "kotlin"), ["-o"]);
    expect(await readdir(join(folder, "kotlin/target/classes/edgetier/models"))).toEqual(
      expect.arrayContaining(["PredictOutput.class", "PredictInput.class"]),
    );
  }, 300_000);
});
