// The OpenAPI document: a linter passes it, and generators make clients of it that compile.
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

it("is without a complaint by the linter", async () => {
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

it("names every operation once, and every schema in generated code would be one of its own", () => {
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

describe("by OpenAPI Generator", () => {
  it("gives a Swift client", async ({ skip }) => {
    const why = await generatorSkipReason();
    skip(why !== undefined, why);
    await generateClient("swift6", document, join(folder, "swift"));
    const models = await readdir(join(folder, "swift/Sources/EdgeTier/Models"));
    expect(models).toEqual(
      expect.arrayContaining(["PredictOutput.swift", "PredictInput.swift", "Problem.swift"]),
    );
    // Of a union, the types: a text, or an image.
    expect(
      await readFile(join(folder, "swift/Sources/EdgeTier/Models/PredictInput.swift"), "utf8"),
    ).toMatch(
      /case typeImageInput\(ImageInput\)[\s\S]*case typeString\(String\)|case typeString\(String\)[\s\S]*case typeImageInput\(ImageInput\)/,
    );
  }, 120_000);

  it("gives a Swift client that compiles", async ({ skip }) => {
    const why =
      (await generatorSkipReason()) ?? ((await hasSwift()) ? undefined : "there is no swift");
    skip(why !== undefined, why);
    await compileSwift(join(folder, "swift"));
    expect(await readdir(join(folder, "swift/.build/debug/Modules"))).toContain(
      "EdgeTier.swiftmodule",
    );
  }, 300_000);

  it("gives a Kotlin client that compiles", async ({ skip }) => {
    const why = await compilerSkipReason();
    skip(why !== undefined, why);
    await generateClient("kotlin", document, join(folder, "kotlin"));
    await compileKotlin(join(folder, "kotlin"), ["-o"]);
    expect(await readdir(join(folder, "kotlin/target/classes/edgetier/models"))).toEqual(
      expect.arrayContaining(["PredictOutput.class", "PredictInput.class"]),
    );
  }, 300_000);
});
