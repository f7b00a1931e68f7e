// Terraform files without their providers: format, validation of variables, names, and the script that applies a region.
import { execFile, spawnSync } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readRegionSettings } from "../../functions/region/settings.ts";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import {
  EDGE_SECRETS,
  requiredVariables,
  unknownVariables,
} from "../../src/http/edge-variables.ts";

const FOLDER = join(PROJECT_ROOT, "infra/terraform");
const hasTerraform = spawnSync("terraform", ["version"]).status === 0;

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "edgetier-terraform-"));
});
afterAll(() => rm(scratch, { recursive: true }));

const read = (file: string): Promise<string> => readFile(join(FOLDER, file), "utf8");
/** Lists the assigned names after the first match of `blockStart`. */
const listNames = (text: string, blockStart: RegExp): string[] =>
  [...text.slice(text.search(blockStart)).matchAll(/^\s+([A-Z][A-Z0-9_]+)\s+=/gm)].map(
    ([, name = ""]) => name,
  );

const account = {
  account_id: "0123456789abcdef0123456789abcdef",
  store_secret_key: "0123456789abcdef",
  store: { kind: "r2", access_key: "k" },
};
const zone = "abcdef0123456789abcdef0123456789";
const region = { context: "c", url: "https://gpu.example.com" };
const s3Store = {
  kind: "s3",
  bucket: "b",
  endpoint: "https://s3.eu-central-1.amazonaws.com",
  access_key: "k",
};

/** Plans the variables alone, which need no provider. */
async function planVariables(values: object) {
  const folder = await mkdtemp(join(scratch, "variables-"));
  await copyFile(join(FOLDER, "variables.tf"), join(folder, "variables.tf"));
  await writeFile(
    join(folder, "values.auto.tfvars.json"),
    JSON.stringify({ ...account, ...values }),
  );
  const terraform = (...args: string[]) =>
    spawnSync("terraform", [`-chdir=${folder}`, ...args, "-no-color"], { encoding: "utf8" });
  expect(terraform("init").status).toBe(0);
  const { status, stderr } = terraform("plan", "-input=false");
  return { status, stderr: stderr.replaceAll(/[\s│]+/g, " ") };
}

describe.skipIf(!hasTerraform)("Terraform", () => {
  it("finds the files formatted and valid", () => {
    const { status, stdout } = spawnSync(
      "terraform",
      ["fmt", "-check", "-diff", "-recursive", FOLDER],
      { encoding: "utf8" },
    );
    expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
  });

  it.each([
    ["an account and a store", {}],
    ["a host name with its zone", { hostname: "api.example.com", zone_id: zone }],
    ["an S3 store", { store: s3Store }],
    ["a region, and no cache", { region, cache: null }],
  ])("accepts %s", async (_case, values) => {
    expect(await planVariables(values)).toMatchObject({ status: 0 });
  });

  // Terraform reports no codes, so a part of each message of variables.tf identifies the rule.
  it.each([
    ["an invalid account id", { account_id: "me" }, "32 hexadecimal digits"],
    ["an invalid Worker name", { name: "My Worker" }, "Small letters"],
    ["another kind of store", { store: { kind: "gcs", access_key: "k" } }, "The kind is r2 or s3"],
    [
      "S3 without its endpoint",
      { store: { kind: "s3", bucket: "b", access_key: "k" } },
      "needs its bucket, and its endpoint",
    ],
    [
      "a duplicate of the primary region",
      { cache: { primary_region: "eu-west-1", read_regions: ["eu-west-1"] } },
      "is not one of read_regions",
    ],
    ["a host name without its zone", { hostname: "api.example.com" }, "the zone's id"],
    [
      "a URL as a host name",
      { hostname: "https://api.example.com/", zone_id: zone },
      "without https://",
    ],
    ["an unknown overlay", { region: { ...region, overlay: "tpu" } }, "cpu or gpu"],
  ])("rejects %s", async (_case, values, rule) => {
    expect(await planVariables(values)).toEqual({
      status: 1,
      stderr: expect.stringContaining(rule),
    });
  });
});

describe("names", () => {
  it("of outputs are known variables, including all required ones of the edge", async () => {
    const names = listNames(await read("outputs.tf"), /output "environment"/);
    expect(unknownVariables(names.filter((name) => name !== "EDGETIER_URL"))).toEqual([]);
    expect(names).toEqual(expect.arrayContaining(requiredVariables()));
    // The first is for several regions; `edgetier keys create` sets the second.
    expect(EDGE_SECRETS.filter((name) => !names.includes(name))).toEqual([
      "EDGETIER_REGIONS",
      "EDGETIER_API_KEYS",
    ]);
  });

  it("of region settings are known to the region, and are in its manifests", async () => {
    const names = listNames(await read("region.tf"), /region_settings = /).filter((name) =>
      name.startsWith("EDGETIER_"),
    );
    const known = Object.keys(
      readRegionSettings({
        EDGETIER_S3_ENDPOINT: "https://s3.example",
        EDGETIER_S3_BUCKET: "b",
        EDGETIER_S3_ACCESS_KEY_ID: "k",
        EDGETIER_S3_SECRET_ACCESS_KEY: "s",
      }),
    );
    expect(known).toEqual(expect.arrayContaining(names));
    const settings = await readFile(join(PROJECT_ROOT, "infra/kubernetes/base/region.env"), "utf8");
    for (const name of names) expect(settings).toContain(`${name}=`);
  });

  it("of secrets are those in the manifests", async () => {
    const deployment = await readFile(
      join(PROJECT_ROOT, "infra/kubernetes/base/deployment.yaml"),
      "utf8",
    );
    const secretNames = [...(await read("region.tf")).matchAll(/name {6}= "([^"]+)"/g)].map(
      ([, name = ""]) => name,
    );
    expect(secretNames).toEqual(["edgetier-model-store", "edgetier-region-keys"]);
    for (const name of secretNames) expect(deployment).toContain(`name: ${name}`);
  });
});

describe("apply-region.sh", () => {
  it("applies the overlay with the deployment's settings, and removes its temporary files", async () => {
    const bin = join(scratch, "bin");
    await mkdir(bin);
    await writeFile(
      join(bin, "kubectl"),
      '#!/bin/sh\necho "$@" >> "$RECORDS/calls"\nfor last; do :; done\ncase "$*" in *apply*) cat "$last/../../base/region.env" > "$RECORDS/settings"; ls "$last" > "$RECORDS/overlay";; esac\n',
      { mode: 0o755 },
    );
    const environment = {
      ...process.env,
      PATH: [bin, process.env["PATH"]].join(delimiter),
      TMPDIR: await mkdtemp(join(scratch, "tmp-")),
      RECORDS: scratch,
      CONTEXT: "gpu-cluster",
      OVERLAY: join(PROJECT_ROOT, "infra/kubernetes/overlays/gpu"),
      SETTINGS: "EDGETIER_S3_BUCKET=shop-models\nEDGETIER_REGION_PRELOAD=desk",
    };
    await promisify(execFile)("sh", [join(FOLDER, "apply-region.sh")], { env: environment });
    const defaults = (
      await readFile(join(PROJECT_ROOT, "infra/kubernetes/base/region.env"), "utf8")
    )
      .split("\n")
      .filter((line) => /^[A-Z]/.test(line));
    const applied = (await readFile(join(scratch, "settings"), "utf8"))
      .split("\n")
      .filter((line) => /^[A-Z]/.test(line));
    const unchanged = defaults.filter(
      (line) => !/^EDGETIER_(S3_BUCKET|REGION_PRELOAD)=/.test(line),
    );
    expect(applied.toSorted()).toEqual(
      [...unchanged, "EDGETIER_S3_BUCKET=shop-models", "EDGETIER_REGION_PRELOAD=desk"].toSorted(),
    );
    expect(await readFile(join(scratch, "overlay"), "utf8")).toContain("kustomization.yaml");
    expect(await readFile(join(scratch, "calls"), "utf8")).toMatch(
      /^--context gpu-cluster apply -k \S+\/kubernetes\/overlays\/gpu\n--context gpu-cluster --namespace edgetier rollout status deployment\/edgetier-region /,
    );
    expect(await readdir(environment.TMPDIR)).toEqual([]);
  });
});
