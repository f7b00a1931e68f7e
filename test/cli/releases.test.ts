// Tests publishing on the command line with a real S3: keys, signatures, aliases, garbage collection.
import { createPublicKey } from "node:crypto";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type CommandFailure,
  type CommandResult,
  runEdgetier,
  runFailingEdgetier,
} from "../support/edgetier-command.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
import { sampleFiles, sampleProject } from "../support/sample-model.ts";
import { writeSampleProject } from "../support/write-sample-project.ts";

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

const runFailing = (
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<CommandFailure> =>
  runFailingEdgetier(["model", ...args], {
    EDGETIER_S3_ENDPOINT: s3.options.endpoint,
    ...environment,
  });

/** Runs a command with --json. @returns its output */
async function json(args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
  const { code, stdout, stderr } = await run([...args, "--json"], environment);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout);
}

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
  it("are readable by their owner only, and never overwrite another", async () => {
    const { file, keyId, publicKey } = await generateKey("first.pem");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const text = await readFile(file, "utf8");
    expect(
      createPublicKey(text)
        .export({ format: "der", type: "spki" })
        .subarray(-32)
        .toString("base64"),
    ).toBe(publicKey);
    expect(await runFailing(["keys", "generate", "--out", file])).toMatchObject({
      exitCode: 2,
      stdout: "",
      code: "usage",
      detail: expect.stringContaining("EEXIST"),
    });
    expect(await readFile(file, "utf8")).toBe(text);
    expect((await run(["keys", "show", file])).stdout).toContain(
      `EDGETIER_TRUSTED_KEYS=${publicKey}`,
    );
    expect(await json(["keys", "show", file])).toEqual({ keyId, publicKey });
  });

  it("are not read from a file without a key, or from a missing file", async () => {
    const packageJson = join(import.meta.dirname, "../../package.json");
    expect(await runFailing(["keys", "show", packageJson])).toMatchObject({
      exitCode: 1,
      code: "invalid_signing_key",
    });
    expect(await runFailing(["keys", "show", join(folder, "missing")])).toMatchObject({
      exitCode: 2,
      code: "usage",
    });
  });
});

describe("signed publishing", () => {
  it("signs, verifies, and rejects versions that edges would not trust", async () => {
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
    expect(await json(["inspect", "sample"])).toMatchObject({
      signedBy: [old.keyId],
      isVerified: false,
    });

    const sample = join(folder, "sample");
    expect(await runFailing(["publish", sample, "--no-snapshots"], trustOld)).toMatchObject({
      code: "would_not_be_trusted",
    });
    const signed = ["publish", sample, "--no-snapshots", "--sign-key", next.file];
    expect(await runFailing(signed, trustOld)).toMatchObject({ code: "would_not_be_trusted" });
    const trustNext = { EDGETIER_TRUSTED_KEYS: next.publicKey };
    for (const args of [
      ["inspect", "sample"],
      ["promote", "sample", "1"],
    ])
      expect(await runFailing(args, trustNext)).toMatchObject({ code: "manifest_untrusted" });
    expect(await runFailing(["list"], { EDGETIER_TRUSTED_KEYS: "nonsense" })).toMatchObject({
      code: "invalid_configuration",
    });

    // Rotation: both keys sign and are trusted until the old one is removed.
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
});

describe("provenance", () => {
  it("records the provenance of a version without paths and hosts", async () => {
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
  it("are promoted, weighted, and rolled back", async () => {
    await s3.empty();
    for (const seed of ["a", "b"]) await publish(seed);
    await publish("c", ["--alias", "night"]);
    expect(
      (await run(["promote", "sample", "night", "--alias", "canary", "--weight", "0.05"])).stdout,
    ).toMatch(/sample@canary\b.*\b3\b.*0\.05/);
    expect(await json(["promote", "sample", "canary"])).toEqual({
      model: "sample",
      alias: "stable",
      before: { version: 2, weight: null, previous: [1] },
      after: { version: 3, weight: null, previous: [2, 1] },
    });
    expect((await run(["list"])).stdout).toMatch(
      /stable=3 \(.*2.*\), night=3, canary=3 \(weight 0\.05\)/,
    );
    expect((await run(["rollback", "sample"])).stdout).toMatch(/sample@stable\b.*\b3\b.*\b2\b/);
    expect(await json(["rollback", "sample"])).toMatchObject({
      before: { version: 2 },
      after: { version: 1 },
    });
    expect(await runFailing(["rollback", "sample"])).toMatchObject({
      code: "nothing_before",
    });
  });
});

describe("arguments", () => {
  it.each([
    [["promote", "sample", "1", "--weight", "0.5"], "stable"],
    [["promote", "sample", "1", "--alias", "canary", "--weight", "5%"], "5%"],
    [["promote", "sample", "1", "--alias", "canary", "--weight", "1.5"], "1.5"],
    [["promote", "sample", "1", "--alias", "NO"], "NO"],
    [["promote", "sample"], "TO"],
    [["gc", "--keep", "0"], "--keep"],
    [["gc", "--older-than", "soon"], "--older-than"],
    [["keys"], "generate"],
  ])("%j are a usage error that names %s", async (args, value) => {
    expect(await runFailing(args)).toMatchObject({
      exitCode: 2,
      stdout: "",
      code: "usage",
      detail: expect.stringContaining(value),
    });
  });

  it.each([
    [["promote", "sample", "99"], "version_not_found"],
    [["promote", "nothing", "1"], "model_not_found"],
    [["promote", "sample", "nightly"], "alias_not_found"],
    [["rollback", "nothing"], "model_not_found"],
    [["rollback", "sample@2"], "invalid_model_name"],
  ])("%j fail with %s", async (args, code) => {
    expect(await runFailing(args)).toMatchObject({ exitCode: 1, stdout: "", code });
  });
});

describe("garbage collection", () => {
  it("lists the garbage with --dry-run, and then deletes it", async () => {
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
    }); // every version is younger than the default age
    const all = ["gc", "--keep", "2", "--older-than", "0m"];
    const garbage = {
      versions: [{ version: 2 }, { version: 1 }],
      artifacts: [{}, {}],
      kept: { versions: 2, artifacts: 4 },
    };
    expect((await run([...all, "--dry-run"])).stdout).toMatch(/sample@2\n.*sample@1\n/);
    expect(await json([...all, "--dry-run"])).toMatchObject({ ...garbage, isDryRun: true });
    expect((await json(["list"])).models[0].versions).toEqual([1, 2, 3, 4]);
    expect(await json(all)).toMatchObject({ ...garbage, isDryRun: false });
    expect((await json(["list"])).models[0].versions).toEqual([3, 4]);
    for (const version of [3, 4])
      expect((await run(["inspect", `sample@${version}`])).stdout).toContain("verified");
  });
});
