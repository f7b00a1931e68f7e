// Publishing as the command line does it: keys, signatures, aliases there and back, garbage. A real S3, child processes.
import { createPublicKey } from "node:crypto";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runEdgetier, type CommandResult } from "../support/edgetier-command.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
import { writeSampleProject } from "../support/write-sample-project.ts";
import { sampleFiles, sampleProject } from "../support/sample-model.ts";

let folder: string;
let s3: TestS3;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-releases-"));
  s3 = await startTestS3();
});
afterAll(async () => {
  await s3.stop();
  await rm(folder, { recursive: true });
});

const run = (
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<CommandResult> =>
  runEdgetier(["model", ...args], { EDGETIER_S3_ENDPOINT: s3.options.endpoint, ...environment });

/** What a command prints with --json. */
async function json(args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  const { code, stdout, stderr } = await run([...args, "--json"], environment);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout);
}

const parseFailure = ({ code, stdout, stderr }: CommandResult) => ({
  code,
  stdout,
  ...JSON.parse(stderr),
});

async function publish(
  seed: string,
  more: readonly string[] = [],
  environment: Readonly<Record<string, string>> = {},
) {
  await writeSampleProject(join(folder, "sample"), sampleProject, sampleFiles(seed));
  return await json(["publish", join(folder, "sample"), "--no-snapshots", ...more], environment);
}

async function generateKey(
  name: string,
): Promise<{ file: string; keyId: string; publicKey: string }> {
  const file = join(folder, name);
  return { file, ...(await json(["keys", "generate", "--out", file])) };
}

describe("keys", () => {
  it("are made for their owner's eyes only, and never over another", async () => {
    const { file, keyId, publicKey } = await generateKey("first.pem");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const text = await readFile(file, "utf8");
    expect(
      createPublicKey(text)
        .export({ format: "der", type: "spki" })
        .subarray(-32)
        .toString("base64"),
    ).toBe(publicKey);
    expect(await run(["keys", "generate", "--out", file])).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("EEXIST"),
    });
    expect(await readFile(file, "utf8")).toBe(text);
    expect((await run(["keys", "show", file])).stdout).toContain(
      `EDGETIER_TRUSTED_KEYS=${publicKey}`,
    );
    expect(await json(["keys", "show", file])).toEqual({ keyId, publicKey });
  });

  it("are not read from what has none", async () => {
    expect(
      parseFailure(
        await run(["keys", "show", join(import.meta.dirname, "../../package.json"), "--json"]),
      ),
    ).toMatchObject({ code: "invalid_signing_key" });
    expect(
      parseFailure(await run(["keys", "show", join(folder, "missing"), "--json"])),
    ).toMatchObject({ code: "usage" });
  });
});

describe("signed publishing", () => {
  it("signs, verifies, and publishes nothing that would not be trusted", async () => {
    await s3.empty();
    const [old, next] = [await generateKey("old.pem"), await generateKey("next.pem")];
    const trustOld = { EDGETIER_TRUSTED_KEYS: old.publicKey };

    expect(await publish("a", ["--sign-key", old.file], trustOld)).toMatchObject({
      version: 1,
      outcome: "published",
      signedBy: [old.keyId],
    });
    expect(await publish("a", ["--sign-key", old.file], trustOld)).toMatchObject({
      version: 1,
      outcome: "unchanged",
    });
    expect(await json(["inspect", "sample"], trustOld)).toMatchObject({
      signedBy: [old.keyId],
      isVerified: true,
    });
    expect((await run(["inspect", "sample"])).stdout).toContain(
      `signed by ${old.keyId}: not verified`,
    );

    const sample = join(folder, "sample");
    expect(
      parseFailure(await run(["publish", sample, "--no-snapshots", "--json"], trustOld)),
    ).toMatchObject({
      code: "would_not_be_trusted",
      detail: expect.stringContaining("not signed"),
    });
    expect(
      parseFailure(
        await run(
          ["publish", sample, "--no-snapshots", "--json", "--sign-key", next.file],
          trustOld,
        ),
      ),
    ).toMatchObject({ code: "would_not_be_trusted" });
    expect(
      parseFailure(
        await run(["inspect", "sample", "--json"], { EDGETIER_TRUSTED_KEYS: next.publicKey }),
      ),
    ).toMatchObject({ code: "manifest_untrusted" });
    expect(
      parseFailure(
        await run(["promote", "sample", "1", "--json"], { EDGETIER_TRUSTED_KEYS: next.publicKey }),
      ),
    ).toMatchObject({ code: "manifest_untrusted" });
    expect(
      parseFailure(await run(["list", "--json"], { EDGETIER_TRUSTED_KEYS: "nonsense" })),
    ).toMatchObject({ code: "invalid_configuration" });

    // Rotation: both keys are trusted, and sign; then the old one goes.
    const trustBoth = { EDGETIER_TRUSTED_KEYS: `${old.publicKey},${next.publicKey}` };
    const keys = `${await readFile(old.file, "utf8")},${await readFile(next.file, "utf8")}`;
    expect(await publish("b", [], { ...trustBoth, EDGETIER_SIGNING_KEYS: keys })).toMatchObject({
      version: 2,
      signedBy: [old.keyId, next.keyId],
    });
    for (const { publicKey } of [old, next])
      expect(
        await json(["inspect", "sample@2"], { EDGETIER_TRUSTED_KEYS: publicKey }),
      ).toMatchObject({ isVerified: true });
  });

  it("tells where a version came from, and neither path nor host", async () => {
    const { manifest } = await json(["inspect", "sample@2"]);
    expect(manifest.provenance).toMatchObject({
      dataset: "none",
      publishing: {
        command: "edgetier model publish sample --alias stable --no-snapshots",
        source: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/), files: 4 },
        versions: { edgetier: expect.any(String), "onnxruntime-web": expect.any(String) },
      },
    });
    expect(JSON.stringify(manifest)).not.toContain(folder);
    expect(JSON.stringify(manifest)).not.toContain("127.0.0.1");
  });
});

describe("aliases", () => {
  it("are promoted, given a share, and rolled back", async () => {
    await s3.empty();
    for (const seed of ["a", "b"]) await publish(seed);
    await publish("c", ["--alias", "night"]);
    expect(
      (await run(["promote", "sample", "night", "--alias", "canary", "--weight", "0.05"])).stdout,
    ).toBe("sample@canary: none -> version 3, weight 0.05\n");
    expect(await json(["promote", "sample", "canary"])).toEqual({
      model: "sample",
      alias: "stable",
      before: { version: 2, weight: null, previous: [1] },
      after: { version: 3, weight: null, previous: [2, 1] },
    });
    expect((await run(["list"])).stdout).toContain(
      "stable=3 (2 before), night=3, canary=3 (weight 0.05)",
    );
    expect((await run(["rollback", "sample"])).stdout).toBe(
      "sample@stable: version 3 -> version 2\n",
    );
    expect(await json(["rollback", "sample"])).toMatchObject({
      before: { version: 2 },
      after: { version: 1 },
    });
    expect(parseFailure(await run(["rollback", "sample", "--json"]))).toMatchObject({
      code: "nothing_before",
    });
  });

  it.each([
    [["promote", "sample", "1", "--weight", "0.5"], "beside stable"],
    [["promote", "sample", "1", "--alias", "canary", "--weight", "5%"], "--weight 5%"],
    [["promote", "sample", "1", "--alias", "canary", "--weight", "1.5"], "--weight 1.5"],
    [["promote", "sample", "1", "--alias", "NO"], "--alias NO"],
    [["promote", "sample"], "TO"],
    [["gc", "--keep", "0"], "--keep 0"],
    [["gc", "--older-than", "soon"], "--older-than soon"],
    [["keys"], "Say which command"],
  ])("answers %j with exit code 2 and what was wrong", async (args, problem) => {
    expect(await run(args)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining(problem),
    });
  });

  it.each([
    [["promote", "sample", "99"], "version_not_found"],
    [["promote", "nothing", "1"], "model_not_found"],
    [["promote", "sample", "nightly"], "alias_not_found"],
    [["rollback", "nothing"], "model_not_found"],
    [["rollback", "sample@2"], "invalid_model_name"],
  ])("says what is wrong with %j", async (args, code) => {
    expect(parseFailure(await run([...args, "--json"]))).toMatchObject({ stdout: "", code });
  });
});

describe("garbage", () => {
  it("is told, and then deleted", async () => {
    await s3.empty();
    for (const seed of ["a", "b", "c", "d"]) await publish(seed);
    await json(["promote", "sample", "4", "--alias", "night"]);
    await s3.bucket.put("models/sample/aliases.json", new TextEncoder().encode('{"stable":4}'), {
      httpMetadata: { contentType: "application/json" },
    });
    expect(await json(["gc", "--keep", "2"])).toMatchObject({
      versions: [],
      artifacts: [],
      isDryRun: false,
    }); // all of it is young
    const all = ["gc", "--keep", "2", "--older-than", "0m"];
    const foretold = await run([...all, "--dry-run"]);
    expect(foretold.stdout).toMatch(
      /would delete sample@2\nwould delete sample@1\nwould delete 2 versions and 2 artifacts, .*\nwould keep 2 versions and 4 artifacts/,
    );
    expect((await json(["list"])).models[0].versions).toEqual([1, 2, 3, 4]);
    expect(await json(all)).toMatchObject({
      versions: [{ version: 2 }, { version: 1 }],
      artifacts: [{}, {}],
      kept: { versions: 2, artifacts: 4 },
    });
    expect((await json(["list"])).models[0].versions).toEqual([3, 4]);
    for (const version of [3, 4])
      expect((await run(["inspect", `sample@${version}`])).stdout).toContain("verified");
  });
});
