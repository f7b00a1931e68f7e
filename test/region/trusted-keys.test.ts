// Trusted keys of a region: unsigned versions are rejected with a code, and loaded versions continue to serve.
import { beforeEach, expect, it, vi } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import {
  createModelRepository,
  type RepositoryEvent,
} from "../../src/region/server/model-repository.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import type { SigningKey } from "../../src/registry/signing-keys.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";
import { publishMoodModel } from "./region-fixture.ts";

let key: SigningKey;
let objects: ObjectStore;
beforeEach(async () => {
  key = await createTestSigningKey();
  objects = createMemoryObjectStore();
  await publishMoodModel(createModelStore(objects, { signingKeys: [key] }));
  await createModelStore(objects).writeAliases("mood", { stable: 1 }, undefined);
});

function startRepository() {
  const clock = new ManualClock();
  const events: RepositoryEvent[] = [];
  const store = createModelStore(objects, { trustedKeys: [key.publicKey] });
  const repository = createModelRepository({
    store,
    runtime: createNativeRuntime({ intraOpThreads: 1 }),
    clock,
    onEvent: (event) => events.push(event),
  });
  return { clock, events, repository };
}

it("continues to serve the loaded version if the alias moves to an unsigned version", async () => {
  const { clock, events, repository } = startRepository();
  const readServedVersion = () =>
    repository.withModel(parseModelRef("mood"), ({ manifest }) => manifest.version);
  expect(await readServedVersion()).toBe(1);
  const intruder = createModelStore(objects);
  await publishMoodModel(intruder, { version: 2 });
  await intruder.writeAliases("mood", { stable: 2 }, (await intruder.readAliases("mood"))?.etag);
  clock.advance(60_000);
  expect(await readServedVersion()).toBe(1);
  await vi.waitFor(() =>
    expect(events).toContainEqual(
      expect.objectContaining({
        event: "model_failed",
        version: 2,
        error: expect.objectContaining({ code: "manifest_untrusted" }),
      }),
    ),
  );
  expect(await readServedVersion()).toBe(1);
  await expect(repository.load("mood")).rejects.toMatchObject({
    code: "manifest_untrusted",
    status: 503,
  });
  await expect(repository.getModel(parseModelRef("mood@2"))).rejects.toMatchObject({
    code: "manifest_untrusted",
  });
  await repository.dispose();
});

it("does not describe an unsigned version", async () => {
  const { repository } = startRepository();
  await publishMoodModel(createModelStore(objects), { version: 2 });
  await expect(repository.describe(parseModelRef("mood@2"))).rejects.toMatchObject({
    code: "manifest_untrusted",
  });
  expect((await repository.describe(parseModelRef("mood@1"))).manifest.version).toBe(1);
  await repository.dispose();
});
