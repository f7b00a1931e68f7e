// The command line as its users meet it: a child process, its exit code, stdout and stderr.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { regionKeysSchema } from "../../src/region/region-keys.ts";
import { sampleProject } from "../support/sample-model.ts";
import { writeSampleProject } from "../support/write-sample-project.ts";
import { int8MatMulGraph, tensorProject } from "../support/tensor-model.ts";
import { runEdgetier } from "../support/edgetier-command.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
import { getUnreachableUrl, startTestHttpServer } from "../support/test-http-server.ts";

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

it("region key makes a secret that edge and region take", async () => {
  const { code, stdout } = await runEdgetier(["region", "key", "--id", "edge-1", "--json"]);
  const { keyId, key } = JSON.parse(stdout);
  expect([code, keyId, regionKeysSchema().parse(key)]).toMatchObject([
    0,
    "edge-1",
    [{ id: "edge-1", secret: { byteLength: 32 } }],
  ]);
  expect(await runEdgetier(["region", "key", "--id", "no spaces"])).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining("is not an id"),
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
    [[], "Say which command"],
    [["nonsense"], 'no command "nonsense"'],
    [["model", "constructor"], 'no command "constructor"'],
    [["model", "publish"], "FOLDER"],
    [["model", "publish", "a", "b"], 'no place for "b"'],
    [["model", "list", "--nope"], "Unknown option '--nope'"],
    [["model", "publish", "x", "--alias"], "--alias"],
    [["model", "publish", "x", "--alias", "NO!"], "--alias NO!"],
    [["predict", "hello"], "--model"],
    [["predict", "--model", "m"], "Give a text, or a file"],
    [["predict", "hello", "--model", "m", "--file", "photo.jpg"], "Give a text, or a file"],
    [["predict", "--model", "m", "--file", "no such photo.jpg"], "ENOENT"],
  ])("answers %j with exit code 2 and what was wrong", async (args, problem) => {
    const { code, stdout, stderr } = await runEdgetier(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(problem);
    expect(stderr).toContain("--help` tells how it is used");
  });

  it("gives errors as problem details with --json", async () => {
    const { code, stdout, stderr } = await runEdgetier(["model", "list", "--json", "--nope"]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(JSON.parse(stderr)).toMatchObject({
      code: "usage",
      detail: expect.stringContaining("--nope"),
      remedy: expect.any(String),
    });
  });
});

describe("models", () => {
  it("publishes, lists and inspects", async () => {
    const project = join(folder, "sample");
    await writeSampleProject(project);
    const empty = await runEdgetier(["model", "list"], storeVariables());
    expect(empty).toMatchObject({ code: 0, stdout: expect.stringContaining("no models") });

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
      stdout: expect.stringMatching(
        /in store.*unchanged: sample@1.*sample@canary is now version 1/s,
      ),
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

  it("publishes and inspects a plain graph", async () => {
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
    ).toMatchObject({ code: 0, stdout: expect.stringContaining("published plain@1") });
    expect((await runEdgetier(["model", "inspect", "plain"], storeVariables())).stdout).toMatch(
      /plain@1 +tensor.*edge +edge +fp32.*none +always.*region +region.*verified/s,
    );
  });

  it.each([
    ["unknown", "model_not_found"],
    ["sample@99", "version_not_found"],
    ["sample@nightly", "alias_not_found"],
    ["UPPER", "invalid_model_name"],
  ])("says what is wrong with the reference %s", async (ref, code) => {
    const ran = await runEdgetier(["model", "inspect", ref, "--json"], storeVariables());
    expect(ran).toMatchObject({ code: 1, stdout: "" });
    expect(JSON.parse(ran.stderr)).toMatchObject({ code });
  });

  it("names every problem of a project", async () => {
    await writeFile(
      join(folder, "model.json"),
      JSON.stringify({ ...sampleProject, labels: "../x", deadlineMs: 5 }),
    );
    const ran = await runEdgetier(["model", "publish", folder], storeVariables());
    expect(ran).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/leaves the folder.*student\.onnx.*cannot be read/s),
    });
  });

  it("says that the store cannot be reached, and why", async () => {
    const ran = await runEdgetier(["model", "list"], {
      EDGETIER_S3_ENDPOINT: await getUnreachableUrl(),
    });
    expect(ran).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(/ECONNREFUSED.*\n.*S3 endpoint/),
    });
  });

  it("refuses an address that is none", async () => {
    const ran = await runEdgetier(["model", "list", "--s3-endpoint", "nonsense"]);
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining("EDGETIER_S3_ENDPOINT") });
  });
});

describe("predict", () => {
  it("shows label, score, tier, confidence, latency and cache", async () => {
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

  it("brings the key that is given, or else EDGETIER_API_KEY, and never shows it", async () => {
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
    expect(ran.map(({ code, stderr }) => [code, /given|environment|secret/.test(stderr)])).toEqual(
      ran.map(() => [1, false]),
    );
    await server.stop();
  });

  it("passes on the edge's error with its remedy", async () => {
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

  it("says that nothing answers", async () => {
    const ran = await runEdgetier([
      "predict",
      "x",
      "--model",
      "m",
      "--url",
      await getUnreachableUrl(),
    ]);
    expect(ran).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/Nothing answers.*ECONNREFUSED.*\n.*npm start/),
    });
  });
});
