// Promoting with a purge: a real S3, and a server of the test's own in place of Cloudflare's API.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type CommandResult, parseFailure, runEdgetier } from "../support/edgetier-command.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
import { sampleFiles, sampleProject } from "../support/sample-model.ts";
import {
  getUnreachableUrl,
  startTestHttpServer,
  type TestHttpServer,
} from "../support/test-http-server.ts";
import { writeSampleProject } from "../support/write-sample-project.ts";

interface PurgeRequest {
  readonly path: string | undefined;
  readonly authorization: string | undefined;
  readonly body: unknown;
}

let folder: string;
let s3: TestS3;
let api: TestHttpServer;
let purged: PurgeRequest[];
/** The API's answer from now on. */
let answer: { readonly status: number; readonly body: object };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-purge-"));
  s3 = await startTestS3();
  api = await startTestHttpServer((request, response) => {
    void text(request).then((body) => {
      purged.push({
        path: request.url,
        authorization: request.headers.authorization,
        body: JSON.parse(body),
      });
      response
        .writeHead(answer.status, { "content-type": "application/json" })
        .end(JSON.stringify(answer.body));
    });
  });
  for (const seed of ["a", "b"]) {
    await writeSampleProject(join(folder, "sample"), sampleProject, sampleFiles(seed));
    await runModelCommand(["publish", join(folder, "sample"), "--no-snapshots"], {});
  }
});
afterAll(async () => {
  await api?.stop();
  await s3?.stop();
  await rm(folder, { recursive: true });
});
beforeEach(() => {
  purged = [];
  answer = { status: 200, body: { success: true, errors: [], result: { id: "z1" } } };
});

const runModelCommand = (
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<CommandResult> =>
  runEdgetier(["model", ...args], { EDGETIER_S3_ENDPOINT: s3.options.endpoint, ...environment });
const zone = () => ({
  CLOUDFLARE_ZONE_ID: "z1",
  CLOUDFLARE_API_TOKEN: "secret-token",
  CLOUDFLARE_API_BASE_URL: `${api.url}/client/v4`,
});
const tags = () => purged.map(({ body }) => body);

describe("moving an alias", () => {
  it("purges the responses of the alias immediately, and again when every isolate has the new alias", async () => {
    const ran = await runModelCommand(
      ["promote", "sample", "1", "--purge", "--settle", "0.05"],
      zone(),
    );
    expect(ran).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("sample@stable"),
      stderr: expect.stringContaining("sample@stable"),
    });
    const call = {
      path: "/client/v4/zones/z1/purge_cache",
      authorization: "Bearer secret-token",
      body: { tags: ["sample@stable"] },
    };
    expect(purged).toEqual([call, call]);
    expect(
      await runModelCommand(["rollback", "sample", "--settle", "0", "--json"], zone()),
    ).toMatchObject({
      code: 0,
      stderr: "",
    });
    expect(tags().slice(2)).toEqual([{ tags: ["sample@stable"] }]);
  });

  it("also purges the default alias, which another alias may serve, and so does publishing", async () => {
    await runModelCommand(
      ["promote", "sample", "1", "--alias", "canary", "--weight", "0.1", "--settle", "0"],
      zone(),
    );
    await runModelCommand(
      ["publish", join(folder, "sample"), "--no-snapshots", "--alias", "night", "--settle", "0"],
      zone(),
    );
    await runModelCommand(
      ["publish", join(folder, "sample"), "--no-snapshots", "--alias", "night", "--settle", "0"],
      zone(),
    ); // the alias is unchanged
    expect(tags()).toEqual([
      { tags: ["sample@canary", "sample@stable"] },
      { tags: ["sample@night", "sample@stable"] },
    ]);
  });
});

describe("an alias that is moved without a purge", () => {
  it("purges nothing without a zone, and with --no-purge", async () => {
    expect(
      await runModelCommand(["promote", "sample", "1"], { CLOUDFLARE_API_TOKEN: "secret-token" }),
    ).toMatchObject({ code: 0, stderr: expect.not.stringContaining("purged") });
    expect(await runModelCommand(["promote", "sample", "2", "--no-purge"], zone())).toMatchObject({
      code: 0,
      stderr: expect.not.stringContaining("purged"),
    });
    expect(purged).toEqual([]);
  });

  it.each([
    [["--purge"], {}, "CLOUDFLARE_ZONE_ID"],
    [[], { CLOUDFLARE_ZONE_ID: "z1", CLOUDFLARE_API_TOKEN: "" }, "CLOUDFLARE_API_TOKEN"],
    [["--settle", "soon"], { CLOUDFLARE_ZONE_ID: "z1", CLOUDFLARE_API_TOKEN: "t" }, "--settle"],
  ])("leaves the alias unchanged if it cannot purge: %j", async (more, environment, value) => {
    const rejected = await runModelCommand(
      ["promote", "sample", "1", "--json", ...more],
      environment,
    );
    expect(parseFailure(rejected)).toMatchObject({
      exitCode: 2,
      stdout: "",
      code: "usage",
      detail: expect.stringContaining(value),
    });
    const listed = await runModelCommand(["list", "--json"], {});
    expect(JSON.parse(listed.stdout)).toMatchObject({
      models: [{ model: "sample", aliases: { stable: { version: 2 } } }],
    });
  });
});

describe("a failed purge", () => {
  it.each([
    [
      "rejects the token",
      async () => zone(),
      {
        status: 403,
        body: { success: false, errors: [{ code: 10000, message: "Authentication error" }] },
      },
      "403: Authentication error",
    ],
    ["replies with another schema", async () => zone(), { status: 200, body: { ok: true } }, "200"],
    [
      "is unreachable",
      async () => ({ ...zone(), CLOUDFLARE_API_BASE_URL: await getUnreachableUrl() }),
      { status: 200, body: {} },
      "ECONNREFUSED",
    ],
  ])(
    "is an error with the command to repeat it if the API %s",
    async (_, environment, apiAnswer, reason) => {
      answer = apiAnswer;
      const ran = await runModelCommand(["promote", "sample", "2", "--json"], await environment());
      expect(JSON.parse(ran.stdout)).toMatchObject({ after: { version: 2 } });
      expect(parseFailure(ran)).toMatchObject({
        exitCode: 1,
        code: "purge_failed",
        detail: expect.stringContaining(reason),
        remedy: expect.stringContaining("edgetier model promote sample 2 --alias stable --purge"),
      });
      expect(ran.stderr).not.toContain("secret-token");
    },
  );
});
