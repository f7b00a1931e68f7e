// The whole system with signed manifests: what nobody trusted has signed reaches neither the Worker nor the region.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type LocalSystem, startLocalSystem } from "../../src/cli/local/system.ts";
import { createSignedFetch } from "../../src/region/signed-fetch.ts";
import { retargetAlias } from "../../src/registry/aliases.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import ESCALATED_TEXT from "../fixtures/escalated-text.json" with { type: "json" };
import { createTestSigningKey } from "../support/test-signing-key.ts";

let folder: string;
let system: LocalSystem;
const lines: string[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-signed-"));
  system = await startLocalSystem({
    stateFolder: folder,
    withRedis: false,
    signingKeys: [await createTestSigningKey()],
    edgeVariables: { EDGETIER_ALIAS_TTL_MS: "0" },
    onLine: (part, line) => lines.push(`${part} ${line}`),
  });
});
afterAll(async () => {
  await system?.stop();
  await rm(folder, { recursive: true, force: true });
});

const predict = (ref: string) =>
  fetch(`${system.urls.edge}/v1/models/${ref}/predict?input=what+is+my+account+balance`);

it("serves what is signed, and serves it on when the alias goes to what is not", async () => {
  expect(await (await predict("intent")).json()).toMatchObject({
    version: 1,
    outputs: [{ label: "balance" }],
  });

  const intruder = createModelStore(createS3ObjectStore(system.store)); // who may write to the bucket, but has no key
  const manifest = await intruder.readManifest("intent", 1);
  if (manifest === undefined) throw new Error("nothing was published");
  await intruder.writeManifest({ ...manifest, version: 2 });
  const read = await intruder.readAliases("intent");
  await intruder.writeAliases(
    "intent",
    { ...read?.aliases, stable: retargetAlias(2, read?.aliases["stable"]) },
    read?.etag,
  );

  expect(await (await predict("intent")).json()).toMatchObject({
    version: 1,
    outputs: [{ label: "balance" }],
  });
  await expect
    .poll(() => lines.find((line) => line.startsWith("edge") && line.includes("version_refused")))
    .toContain("intent");
  const rejected = await predict("intent@2");
  expect({ status: rejected.status, body: await rejected.json() }).toMatchObject({
    status: 503,
    body: { code: "manifest_untrusted" },
  });

  const ask = createSignedFetch(system.regionKey);
  const load = await ask(`${system.urls.region}/v2/repository/models/intent/load`, {
    method: "POST",
  });
  expect({ status: load.status, body: await load.json() }).toMatchObject({
    status: 503,
    body: { error: expect.stringContaining("intent@2") },
  });
  expect((await ask(`${system.urls.region}/v2/models/intent/versions/1/ready`, {})).status).toBe(
    200,
  );
});

it("has a region that answers its edge, and nobody else", async () => {
  const answer = await (
    await fetch(
      `${system.urls.edge}/v1/models/intent/predict?${new URLSearchParams({ input: ESCALATED_TEXT, cache: "bypass" })}`,
    )
  ).json();
  expect(answer).toMatchObject({ outputs: [{ tier: "region-int8", degraded: false }] });
  const statusOf = async (path: string, init: RequestInit = {}) =>
    (await fetch(`${system.urls.region}${path}`, init)).status;
  expect(
    await Promise.all([
      statusOf("/v2/models/intent/infer", { method: "POST", body: "{}" }),
      statusOf("/v2/repository/models/intent/unload", { method: "POST" }),
      statusOf("/v2/models/intent"),
    ]),
  ).toEqual([401, 401, 401]);
  expect(await Promise.all([statusOf("/v2/health/ready"), statusOf("/metrics")])).toEqual([
    200, 200,
  ]);
});
