// Tests `edgetier keys`: an edge accepts the keys and entries that it prints.
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { systemClock } from "../../src/core/clock.ts";
import { createApiKeyAuthenticator } from "../../src/http/access/drivers/api-key-authenticator.ts";
import { parseEdgeConfig } from "../../src/http/config.ts";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";

const STORE = {
  EDGETIER_S3_ENDPOINT: "https://s3.example.com",
  EDGETIER_S3_BUCKET: "models",
  EDGETIER_S3_ACCESS_KEY_ID: "id",
  EDGETIER_S3_SECRET_ACCESS_KEY: "secret",
};
const printed = z.object({
  key: z.string(),
  entry: z.looseObject({ id: z.string(), sha256: z.string() }),
});

const authenticatorOf = (entries: readonly unknown[]) =>
  createApiKeyAuthenticator(
    parseEdgeConfig({ ...STORE, EDGETIER_API_KEYS: JSON.stringify(entries) }).EDGETIER_API_KEYS ??
      [],
    systemClock,
  );

describe("edgetier keys create", () => {
  it("prints a key, and the entry that makes an edge accept it", async () => {
    const options = [
      "--tenant",
      "acme",
      "--scope",
      "predict,metadata",
      "--models",
      "intent,vision",
      "--rate-limit",
      "100/60",
      "--expires-in-days",
      "30",
      "--json",
    ];
    const [first, second] = [
      await runEdgetier(["keys", "create", ...options]),
      await runEdgetier(["keys", "create", "--tenant", "acme", "--scope=admin", "--json"]),
    ];
    expect(first).toMatchObject({ code: 0, stderr: "" });
    const [one, other] = [
      printed.parse(JSON.parse(first.stdout)),
      printed.parse(JSON.parse(second.stdout)),
    ];
    expect(one.entry).toEqual({
      id: `acme-${one.entry.sha256.slice(0, 8)}`,
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      tenant: "acme",
      scopes: ["predict", "metadata"],
      models: ["intent", "vision"],
      rateLimit: { requests: 100, windowSeconds: 60 },
      expiresAt: expect.any(String),
    });
    expect(JSON.stringify(one.entry)).not.toContain(one.key);
    const authenticator = authenticatorOf([one.entry, other.entry]);
    expect(await authenticator.authenticate(one.key)).toMatchObject({
      tenant: "acme",
      scopes: ["predict", "metadata"],
      models: ["intent", "vision"],
      rateLimit: { requests: 100, windowSeconds: 60 },
    });
    expect(await authenticator.authenticate(other.key)).toMatchObject({ scopes: ["admin"] });
  });
});

describe("the output of edgetier keys create", () => {
  it("prints the command that sets the entry as a secret", async () => {
    const { code, stdout, stderr } = await runEdgetier([
      "keys",
      "create",
      "--tenant",
      "acme",
      "--scope",
      "predict",
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/edgetier_\w{49}\n[^]*"sha256":"[0-9a-f]{64}"/);
    expect(stderr).toMatch(/^Next: .*EDGETIER_API_KEYS/);
  });

  it.each([
    [["--tenant", "acme"], "--scope"],
    [["--scope", "predict"], "--tenant"],
    [["--tenant", "acme", "--scope", "predict,everything"], "--scope"],
    [["--tenant", "acme", "--scope", "predict", "--rate-limit", "many"], "--rate-limit"],
    [["--tenant", "acme", "--scope", "predict", "--rate-limit", "0/60"], "--rate-limit"],
    [["--tenant", "acme", "--scope", "predict", "--expires-in-days", "soon"], "--expires-in-days"],
  ])("rejects %j with exit code 2 and prints no key", async (args, option) => {
    expect(await runFailingEdgetier(["keys", "create", ...args])).toMatchObject({
      exitCode: 2,
      stdout: "",
      code: "usage",
      detail: expect.stringContaining(option),
    });
  });
});
