// Tests `edgetier deploy` of the npm package with the real wrangler: deploying, deploying again, and rolling back.
// A fake of Cloudflare's API runs the uploads in a real workerd.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toS3Variables } from "../../src/registry/s3-config.ts";
import { type CommandResult, parseFailure } from "../support/edgetier-command.ts";
import { type FakeCloudflare, startFakeCloudflare } from "../support/fake-cloudflare.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
import { type PackagedProject, createPackagedProject } from "../support/packaged-project.ts";
import { getUnreachableUrl } from "../support/test-http-server.ts";

const SECRET_NAMES = [
  "EDGETIER_S3_ACCESS_KEY_ID",
  "EDGETIER_S3_ENDPOINT",
  "EDGETIER_S3_SECRET_ACCESS_KEY",
];

let project: PackagedProject;
let s3: TestS3;
let cloud: FakeCloudflare;
beforeAll(async () => {
  [project, s3, cloud] = await Promise.all([
    createPackagedProject(),
    startTestS3(),
    startFakeCloudflare(),
  ]);
  await project.runEdgetier(["init", "moods"]);
  await change("wrangler.toml", "[vars]", '[vars]\nEDGETIER_ALIAS_TTL_MS = "1000"'); // a deployment waits until every isolate has the new version
}, 300_000);
afterAll(async () => {
  await cloud.stop();
  await s3.stop();
  await project.remove();
});

const environment = () => ({
  ...cloud.environment,
  ...toS3Variables(s3.options),
  EDGETIER_URL: cloud.workerUrl,
});
const deploy = (...options: string[]): Promise<CommandResult> =>
  project.runEdgetier(["deploy", "--no-doctor", ...options], environment());

/** Status by step. */
const statuses = ({ stdout }: CommandResult): Record<string, string> =>
  Object.fromEntries(
    JSON.parse(stdout).steps.map(({ step, status }: { step: string; status: string }) => [
      step,
      status,
    ]),
  );
const stepDetailsOf = ({ stdout }: CommandResult, name: string): string =>
  JSON.parse(stdout)
    .steps.filter(({ step }: { step: string }) => step === name)
    .flatMap(({ found }: { found: string[] }) => found)
    .join("\n");

async function stable(): Promise<number | undefined> {
  const { stdout } = await project.runEdgetier(["model", "list", "--json"], environment());
  const named = JSON.parse(stdout).models[0]?.aliases.stable;
  return named?.version ?? named; // an alias that has moved has its previous version, too
}

async function labelOf(text: string): Promise<unknown> {
  const response = await fetch(`${cloud.workerUrl}/v1/models/moods/predict`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ inputs: text, parameters: { cache: "bypass" } }),
  });
  return response.status === 200
    ? ((await response.json()) as { outputs: { label: string }[] }).outputs[0]?.label
    : response.status;
}

const change = async (file: string, from: string | RegExp, to: string): Promise<void> => {
  const path = join(project.folder, file);
  await writeFile(path, (await readFile(path, "utf8")).replace(from, to));
};

describe("edgetier deploy", () => {
  it("wants a model store of its own, and models that there are", async () => {
    expect(await project.runEdgetier(["deploy"], cloud.environment)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("EDGETIER_S3_ENDPOINT"),
    });
    expect(await deploy("--models", "moods,other")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("other"),
    });
  });

  it("shows every step of a dry run, what is missing, and changes nothing", async () => {
    const ran = await deploy("--dry-run", "--json");
    expect(ran.code).toBe(1);
    expect(JSON.parse(ran.stderr)).toMatchObject({
      code: "secrets_missing",
      detail: expect.stringContaining(SECRET_NAMES.toSorted()[1] ?? ""),
    });
    expect(statuses(ran)).toEqual({
      check: "done",
      build: expect.stringMatching(/^(done|already)$/),
      publish: "would",
      deploy: "would",
      warm: "would",
      "smoke test": "would",
      promote: "would",
    });
    expect(stepDetailsOf(ran, "smoke test")).toMatch(/sample 1 \(complaint\)/);
    expect(cloud.changes).toEqual([]);
    expect(await stable()).toBeUndefined();
  }, 300_000);

  it("stops before any change if secrets are missing", async () => {
    const ran = await deploy("--json");
    expect(ran.code).toBe(1);
    expect(statuses(ran)).toEqual({ check: "failed" });
    expect(cloud.changes).toEqual([]);
  }, 300_000);
});

describe("a deployment", () => {
  it("sets secrets by stdin, deploys, tests the deployment, and then promotes the new version", async () => {
    const ran = await deploy("--set-secrets", "--json");
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(statuses(ran)).toEqual({
      check: "done",
      build: expect.any(String),
      publish: "done",
      deploy: "done",
      engine: "done",
      address: "done",
      warm: "done",
      "smoke test": "done",
      "promote moods": "done",
    });
    expect(stepDetailsOf(ran, "smoke test")).toMatch(
      /moods@1\b.*5 of 5.*(l1|cdn|l2).*model_not_found \(404\)/s,
    );
    expect([...cloud.secrets.keys()].toSorted()).toEqual(SECRET_NAMES);
    expect(cloud.secrets.get("EDGETIER_S3_SECRET_ACCESS_KEY")).toBe(s3.options.secretAccessKey);
    expect(`${ran.stdout}${ran.stderr}`).not.toContain(s3.options.secretAccessKey);
    expect(await stable()).toBe(1);
    expect(await labelOf("my parcel arrived broken")).toBe("complaint");
  }, 300_000);

  it("skips completed steps on a second run", async () => {
    const before = [...cloud.changes];
    const ran = await deploy();
    expect(ran).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /^publish +already .*^deploy +already .*^smoke test +done .*^promote moods +already .*http/ms,
      ),
      stderr: expect.stringContaining("Next: "),
    });
    expect(cloud.changes).toEqual(before);
  }, 300_000);
});

describe("a failed deployment", () => {
  it("rolls back to the previous version if the new one does not answer, and no client gets the new model", async () => {
    const [before] = cloud.listDeployedVersionIds();
    await change(
      "models/moods/model.json",
      /"description": ".*"/,
      '"description": "a second version"',
    );
    await change("wrangler.toml", "[vars]", '[vars]\nEDGETIER_L1_MAX_BYTES = "4194304"');
    cloud.overrideNextVersion({ EDGETIER_S3_ENDPOINT: await getUnreachableUrl() });
    const ran = await deploy("--patience", "3", "--json");
    cloud.overrideNextVersion(undefined);
    expect(ran.code).toBe(1);
    expect(JSON.parse(ran.stderr)).toMatchObject({
      code: "deployment_undone",
      detail: expect.stringMatching(new RegExp(`^Step warm failed: .*${before}`, "s")),
    });
    expect(statuses(ran)).toMatchObject({
      publish: "done",
      deploy: "done",
      warm: "failed",
      "way back": "taken back",
    });
    expect(cloud.listDeployedVersionIds()[0]).toBe(before);
    expect(await stable()).toBe(1);
    expect(await labelOf("thank you, that was quick")).toBe("praise");
  }, 300_000);

  it("rolls back if an answer is wrong, and names the sample", async () => {
    const [before] = cloud.listDeployedVersionIds();
    await change("models/moods/samples/samples.jsonl", '"label":"complaint"', '"label":"praise"');
    await change("wrangler.toml", "4194304", "2097152");
    const ran = await deploy("--json");
    await change("models/moods/samples/samples.jsonl", '"label":"praise"', '"label":"complaint"');
    expect(JSON.parse(ran.stderr)).toMatchObject({
      code: "deployment_undone",
      detail: expect.stringMatching(/^Step smoke test failed: .*moods@2.*praise.*complaint/s),
    });
    expect(cloud.listDeployedVersionIds()[0]).toBe(before);
    expect(await stable()).toBe(1);
  }, 300_000);

  it("continues after the cause of a failure is mended", async () => {
    const ran = await deploy("--json");
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(statuses(ran)).toMatchObject({
      build: "already",
      publish: "already",
      deploy: "done",
      "promote moods": "done",
    });
    expect(await stable()).toBe(2);
  }, 300_000);

  it("rejects a secret in wrangler.toml", async () => {
    await change("wrangler.toml", "[vars]", '[vars]\nEDGETIER_API_KEYS = "[]"');
    const ran = await deploy("--dry-run", "--json");
    expect(parseFailure(ran)).toMatchObject({
      exitCode: 1,
      detail: expect.stringContaining("EDGETIER_API_KEYS"),
    });
  }, 300_000);
});
