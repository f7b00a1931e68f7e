// `edgetier deploy` as its users call it, with the real wrangler against a small fake of Cloudflare's API that runs what is
// uploaded in a real workerd: there, there again, and back.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toS3Variables } from "../../src/registry/s3-config.ts";
import type { CommandResult } from "../support/edgetier-command.ts";
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
  await change("wrangler.toml", "[vars]", '[vars]\nEDGETIER_ALIAS_TTL_MS = "1000"'); // a deployment waits until every isolate knows the new version
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
  return named?.version ?? named; // an alias that has moved remembers where from
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
      stderr: expect.stringContaining("there is no other among moods"),
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

  it("stops before anything is changed where secrets are missing", async () => {
    const ran = await deploy("--json");
    expect(ran.code).toBe(1);
    expect(statuses(ran)).toEqual({ check: "failed" });
    expect(cloud.changes).toEqual([]);
  }, 300_000);

  it("sets secrets by stdin, deploys, tries what is deployed, and then gives clients the new version", async () => {
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
      /live and ready.*moods@1: 5 of 5 answers as expected.*answered from (l1|cdn|l2).*model_not_found \(404\), with a remedy/s,
    );
    expect([...cloud.secrets.keys()].toSorted()).toEqual(SECRET_NAMES);
    expect(cloud.secrets.get("EDGETIER_S3_SECRET_ACCESS_KEY")).toBe(s3.options.secretAccessKey);
    expect(`${ran.stdout}${ran.stderr}`).not.toContain(s3.options.secretAccessKey);
    expect(await stable()).toBe(1);
    expect(await labelOf("my parcel arrived broken")).toBe("complaint");
  }, 300_000);

  it("finds done what is done, for people as well", async () => {
    const before = [...cloud.changes];
    const ran = await deploy();
    expect(ran).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /^publish +already .*^deploy +already .*^smoke test +done .*^promote moods +already .*Deployed: http/ms,
      ),
      stderr: expect.stringContaining("Next: "),
    });
    expect(cloud.changes).toEqual(before);
  }, 300_000);

  it("goes back to the version before where the new one does not answer, and no client gets the new model", async () => {
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
      detail: expect.stringMatching(
        new RegExp(`^warm: .*Taken back: the Worker, to version ${before}`),
      ),
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

  it("goes back where an answer is wrong, and says which", async () => {
    const [before] = cloud.listDeployedVersionIds();
    await change("models/moods/samples/samples.jsonl", '"label":"complaint"', '"label":"praise"');
    await change("wrangler.toml", "4194304", "2097152");
    const ran = await deploy("--json");
    await change("models/moods/samples/samples.jsonl", '"label":"praise"', '"label":"complaint"');
    expect(JSON.parse(ran.stderr)).toMatchObject({
      code: "deployment_undone",
      detail: expect.stringMatching(
        /^smoke test: .*moods@2, sample 1 \(praise\): it answers "complaint"/,
      ),
    });
    expect(cloud.listDeployedVersionIds()[0]).toBe(before);
    expect(await stable()).toBe(1);
  }, 300_000);

  it("goes on where it broke off, once the cause is gone", async () => {
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

  it("refuses a secret in wrangler.toml", async () => {
    await change("wrangler.toml", "[vars]", '[vars]\nEDGETIER_API_KEYS = "[]"');
    const ran = await deploy("--dry-run", "--json");
    expect(ran).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("EDGETIER_API_KEYS in clear"),
    });
  }, 300_000);
});
