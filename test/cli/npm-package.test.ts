// The npm package, installed elsewhere: what is in it, that its command works without type stripping, that a project is made
// and served with it.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { findFreePort } from "../../src/cli/local/ports.ts";
import { type PackagedProject, createPackagedProject } from "../support/packaged-project.ts";

const hasClient = existsSync(join(import.meta.dirname, "../../src/client/index.ts"));

let project: PackagedProject;
beforeAll(async () => {
  project = await createPackagedProject();
}, 300_000);
afterAll(async () => await project.remove());

describe("the package", () => {
  it("has the command, the entries, and no sources, tests or models", () => {
    expect(project.files).toEqual(
      expect.arrayContaining([
        "package.json",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        packageJson.bin.edgetier,
        "dist/package/functions/edge/main.js",
        "dist/package/functions/region/main.js",
        "dist/package/wrangler.toml",
      ]),
    );
    expect(
      project.files.filter((path) => /(^|\/)(test|models|infra)\/|[^d]\.ts$/.test(path)),
    ).toEqual([]);
  });

  it("says what it is and who may use it", () => {
    const text = expect.stringMatching(/./);
    expect(packageJson).toMatchObject({
      name: "edgetier",
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      description: text,
      license: "MIT",
      engines: { node: ">=22.18" },
    });
    expect(packageJson).not.toHaveProperty("private");
  });

  it("needs no package that it does not name", async () => {
    const named = {
      ...packageJson.dependencies,
      ...packageJson.optionalDependencies,
      edgetier: packageJson.version, // examples in comments import the package itself
    };
    const missing: string[] = [];
    for (const path of project.files.filter((one) => one.endsWith(".js"))) {
      const text = await readFile(join(project.folder, "node_modules/edgetier", path), "utf8");
      for (const [, name = ""] of text.matchAll(
        /(?:from|import\() ?"((?:@[a-z0-9-]+\/)?[a-z0-9][a-z0-9._-]*)[^":]*"/g,
      ))
        if (!Object.hasOwn(named, name)) missing.push(`${path}: ${name}`);
    }
    // The toolchain and the deployment supply these modules when they bundle.
    expect(missing.filter((one) => !/: (sandbox|edgetier-deployment)$/.test(one))).toEqual([]);
  });

  it.skipIf(!hasClient)("has the client, for programs", async () => {
    // src/client is not there
    expect(
      await project.node(
        'const { createClient } = await import("edgetier/client"); console.log(typeof createClient);',
      ),
    ).toMatchObject({ code: 0, stdout: "function\n" });
  });
});

describe("its command", () => {
  it("explains itself", async () => {
    expect(await project.runEdgetier(["--help"])).toMatchObject({
      code: 0,
      stderr: "",
      stdout: expect.stringContaining("USAGE edgetier"),
    });
    expect((await project.runEdgetier(["model", "publish", "--help"])).stdout).toContain(
      "npx edgetier model publish models/intent",
    );
  });

  it("makes a project and a deployment around it, and serves it", async () => {
    const made = await project.runEdgetier(["init", "moods", "--task", "text-classification"]);
    expect(made).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("15 of 15"),
      stderr: expect.stringContaining("Next: "),
    });
    expect(await readFile(join(project.folder, "wrangler.toml"), "utf8")).toMatch(
      /^main = "node_modules\/edgetier\/.*\.js"$/m,
    );
    expect(await readFile(join(project.folder, "package.json"), "utf8")).toContain('"shop"'); // was there
    expect(await project.runEdgetier(["init", "moods", "--json"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("template_exists"),
    });

    const ports = Object.fromEntries(
      await Promise.all(
        [
          "EDGETIER_PORT",
          "EDGETIER_REGION_PORT",
          "EDGETIER_S3_PORT",
          "EDGETIER_REDIS_REST_PORT",
        ].map(async (name) => [name, `${await findFreePort()}`]),
      ),
    );
    const served = await project.node(`
      import { spawn } from "node:child_process";
      const system = spawn(process.execPath, ["node_modules/edgetier/${packageJson.bin.edgetier}", "start", "--json"], { env: { ...process.env, ...${JSON.stringify(ports)} }, stdio: ["ignore", "pipe", "inherit"] });
      system.stdout.once("data", (line) => { process.stdout.write(line); system.kill("SIGTERM"); });
      system.once("close", (code) => { process.exitCode = code; });`);
    expect(served).toMatchObject({ code: 0 });
    expect(JSON.parse(served.stdout)).toMatchObject({
      models: [{ model: "moods", version: 1 }],
      prediction: { model: "moods", tier: "edge-fp32", label: "question" },
      again: { cache: "l1" },
    });
  }, 300_000);
});
