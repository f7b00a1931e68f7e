// Tests the command line: exit codes, stdout and stderr of usage errors, model commands and `predict`.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { regionKeysSchema } from "../../src/region/region-keys.ts";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
import { sampleProject } from "../support/sample-model.ts";
import { int8MatMulGraph, tensorProject } from "../support/tensor-model.ts";
import { getUnreachableUrl, startTestHttpServer } from "../support/test-http-server.ts";
import { writeSampleProject } from "../support/write-sample-project.ts";

let folder: string;
let s3: TestS3;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-cli-"));
  s3 = await startTestS3();
});
afterAll(async () => {
  await s3.stop();
  await rm(folder, { recursive: true });
});
const storeVariables = () => ({ EDGETIER_S3_ENDPOINT: s3.options.endpoint });

it("region key creates a secret that edge and region accept", async () => {
  const { code, stdout } = await runEdgetier(["region", "key", "--id", "edge-1", "--json"]);
  const { keyId, key } = JSON.parse(stdout);
  expect({ code, keyId, keys: regionKeysSchema().parse(key) }).toMatchObject({
    code: 0,
    keyId: "edge-1",
    keys: [{ id: "edge-1", secret: { byteLength: 32 } }],
  });
  expect(await runFailingEdgetier(["region", "key", "--id", "no spaces"])).toMatchObject({
    exitCode: 2,
    stdout: "",
    code: "usage",
    detail: expect.stringContaining("no spaces"),
  });
});

describe("usage", () => {
  it.each([
    [["--help"]],
    [["model", "--help"]],
    [["model", "publish", "--help"]],
    [["predict", "-h"]],
    [["start", "--help"]],
    [["engine", "prepare", "--help"]],
    [["keys", "create", "--help"]],
  ])("explains %j", async (args) => {
    const { code, stdout, stderr } = await runEdgetier(args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/USAGE edgetier/);
    expect(stdout).not.toContain("\u001b");
  });

  it.each([
    [[], "init"],
    [["nonsense"], '"nonsense"'],
    [["model", "constructor"], '"constructor"'],
    [["model", "publish"], "FOLDER"],
    [["model", "publish", "a", "b"], '"b"'],
    [["model", "list", "--nope"], "--nope"],
    [["model", "publish", "x", "--alias"], "--alias"],
    [["model", "publish", "x", "--alias", "NO!"], "NO!"],
    [["predict", "hello"], "--model"],
    [["predict", "--model", "m"], "--file"],
    [["predict", "hello", "--model", "m", "--file", "photo.jpg"], "--file"],
    [["predict", "--model", "m", "--file", "no such photo.jpg"], "ENOENT"],
  ])("rejects %j with exit code 2 and names %s", async (args, value) => {
    const { code, stdout, stderr } = await runEdgetier(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(value);
    expect(stderr).toContain("--help`");
  });

  it("prints errors as problem details with --json", async () => {
    expect(await runFailingEdgetier(["model", "list", "--nope"])).toMatchObject({
      exitCode: 2,
      stdout: "",
      code: "usage",
      detail: expect.stringContaining("--nope"),
      remedy: expect.any(String),
    });
  });
});

describe("models", () => {
  it("are published, listed and inspected", async () => {
    const project = join(folder, "sample");
    await writeSampleProject(project);
    const empty = await runEdgetier(["model", "list", "--json"], storeVariables());
    expect({ exitCode: empty.code, ...JSON.parse(empty.stdout) }).toEqual({
      exitCode: 0,
      models: [],
    });

    const published = await runEdgetier(
      ["model", "publish", project, "--no-snapshots", "--json"],
      storeVariables(),
    ); // snapshots: engine-commands.test.ts
    expect(published).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(published.stdout)).toMatchObject({
      model: "sample",
      version: 1,
      outcome: "published",
      aliasMoved: true,
    });
    const again = await runEdgetier(
      ["model", "publish", project, "--no-snapshots", "--alias=canary"],
      storeVariables(),
    );
    expect(again).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/sample@1.*sample@canary\b.* 1\b/s),
    });

    const listed = await runEdgetier(["model", "list", "--json"], storeVariables());
    expect(JSON.parse(listed.stdout)).toEqual({
      models: [{ model: "sample", versions: [1], aliases: { stable: 1, canary: 1 } }],
    });
    expect((await runEdgetier(["model", "list"], storeVariables())).stdout).toMatch(
      /sample +1 +1 +stable=1, canary=1/,
    );

    const inspected = await runEdgetier(
      ["model", "inspect", "sample@canary", "--json"],
      storeVariables(),
    );
    expect(JSON.parse(inspected.stdout)).toMatchObject({
      manifest: { model: "sample", version: 1, deadlineMs: sampleProject.deadlineMs },
      artifacts: [{ problem: null }, { problem: null }, { problem: null }],
    });
    expect((await runEdgetier(["model", "inspect", "sample"], storeVariables())).stdout).toMatch(
      /student +edge +int8.*verified/s,
    );
  });
});

describe("plain graphs", () => {
  it("are published and inspected as plain graphs", async () => {
    const { project, files } = tensorProject(
      "plain",
      int8MatMulGraph(await readFile(new URL("../fixtures/int8-matmul.onnx", import.meta.url))),
      ["left", "right"],
    );
    await writeSampleProject(join(folder, "plain"), project, new Map(files));
    expect(
      await runEdgetier(
        ["model", "publish", join(folder, "plain"), "--no-snapshots"],
        storeVariables(),
      ),
    ).toMatchObject({ code: 0, stdout: expect.stringContaining("plain@1") });
    expect((await runEdgetier(["model", "inspect", "plain"], storeVariables())).stdout).toMatch(
      /plain@1 +tensor.*edge +edge +fp32.*none +always.*region +region.*verified/s,
    );
  });
});

describe("model commands", () => {
  it.each([
    ["unknown", "model_not_found"],
    ["sample@99", "version_not_found"],
    ["sample@nightly", "alias_not_found"],
    ["UPPER", "invalid_model_name"],
  ])("are not found by the reference %s: %s", async (ref, code) => {
    expect(await runFailingEdgetier(["model", "inspect", ref], storeVariables())).toMatchObject({
      exitCode: 1,
      stdout: "",
      code,
    });
  });

  it("are rejected with every problem of their project", async () => {
    await writeFile(
      join(folder, "model.json"),
      JSON.stringify({ ...sampleProject, labels: "../x", deadlineMs: 5 }),
    );
    expect(await runFailingEdgetier(["model", "publish", folder], storeVariables())).toMatchObject({
      exitCode: 1,
      code: "invalid_project",
      detail: expect.stringMatching(/\.\.\/x.*student\.onnx/s),
    });
  });

  it("are not listed if the store is unreachable", async () => {
    expect(
      await runFailingEdgetier(["model", "list"], {
        EDGETIER_S3_ENDPOINT: await getUnreachableUrl(),
      }),
    ).toMatchObject({
      exitCode: 1,
      stdout: "",
      code: "model_store_unavailable",
      detail: expect.stringContaining("ECONNREFUSED"),
    });
  });

  it("are not listed if the store's address is invalid", async () => {
    expect(await runFailingEdgetier(["model", "list", "--s3-endpoint", "nonsense"])).toMatchObject({
      exitCode: 1,
      code: "invalid_configuration",
      detail: expect.stringContaining("EDGETIER_S3_ENDPOINT"),
    });
  });
});

describe("the output of predict", () => {
  it("has label, score, tier, confidence, latency and cache", async () => {
    const server = await startTestHttpServer((request, response) => {
      response.writeHead(200, { "content-type": "application/json", "x-edgetier-cache": "l2" });
      const output = {
        label: "freeze_account",
        score: 0.91,
        tier: "student",
        confidence: 0.91,
        degraded: false,
      };
      response.end(
        JSON.stringify({ model: request.url?.split("/")[3], version: 4, outputs: [output] }),
      );
    });
    const text = await runEdgetier([
      "predict",
      "--model",
      "intent",
      "--url",
      server.url,
      "--",
      "--freeze",
    ]);
    expect(text).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Next: [^\n]*\n$/) });
    expect(text.stdout).toMatch(
      /label +freeze_account\nscore +0\.9100\ntier +student\nconfidence +0\.9100\nlatency +[\d.]+ ms\ncache +l2\nmodel +intent@4/,
    );
    const json = await runEdgetier([
      "predict",
      "x",
      "--model=intent",
      "--url",
      server.url,
      "--json",
    ]);
    expect(JSON.parse(json.stdout)).toMatchObject({
      label: "freeze_account",
      tier: "student",
      cache: "l2",
      latencyMs: expect.any(Number),
    });
    await server.stop();
  });
});

describe("the credential of predict", () => {
  it("never has the key, which comes from --api-key or else EDGETIER_API_KEY", async () => {
    const seen: (string | undefined)[] = [];
    const server = await startTestHttpServer((request, response) => {
      seen.push(request.headers.authorization);
      response
        .writeHead(401, { "content-type": "application/problem+json" })
        .end(JSON.stringify({ code: "invalid_credential", detail: "No.", remedy: "Ask." }));
    });
    const args = ["predict", "x", "--model", "m", "--url", server.url];
    const ran = [
      await runEdgetier([...args, "--api-key", "given"], { EDGETIER_API_KEY: "other" }),
      await runEdgetier(args, { EDGETIER_API_KEY: "from-the-environment" }),
      await runEdgetier(args),
      await runEdgetier([...args, "--api-key", "broken\nsecret"]),
    ];
    expect(seen).toEqual(["Bearer given", "Bearer from-the-environment", undefined]);
    for (const { code, stderr } of ran) {
      expect(code).toBe(1);
      expect(stderr).not.toMatch(/given|environment|secret/);
    }
    await server.stop();
  });
});

describe("errors of predict", () => {
  it("are those of the edge, with their remedy", async () => {
    const problem = {
      code: "model_not_found",
      detail: "There is no model.",
      remedy: "Publish one.",
    };
    const server = await startTestHttpServer((_, response) =>
      response
        .writeHead(404, { "content-type": "application/problem+json" })
        .end(JSON.stringify(problem)),
    );
    const ran = await runEdgetier(["predict", "x", "--model", "m", "--url", server.url]);
    expect(ran).toMatchObject({
      code: 1,
      stdout: "",
      stderr: "error: There is no model.\n  Publish one.\n",
    });
    await server.stop();
  });

  it("report an unreachable edge", async () => {
    expect(
      await runFailingEdgetier([
        "predict",
        "x",
        "--model",
        "m",
        "--url",
        await getUnreachableUrl(),
      ]),
    ).toMatchObject({
      exitCode: 1,
      code: "edge_unreachable",
      detail: expect.stringContaining("ECONNREFUSED"),
    });
  });
});
