import { describe, expect, it } from "vitest";
import { withBundledArtifacts } from "../../src/registry/bundled-artifacts.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("withBundledArtifacts", () => {
  it("reads bundled artifacts without the store, and all others from it", async () => {
    const otherStore = createModelStore(createMemoryObjectStore());
    const { ref } = await otherStore.writeArtifact(bytes("labels"));
    const store = createModelStore(createMemoryObjectStore());
    const { ref: other } = await store.writeArtifact(bytes("graph"));
    const both = withBundledArtifacts(store, new Map([[ref.sha256, bytes("labels").buffer]]));
    expect(new TextDecoder().decode(await both.readArtifact(ref))).toBe("labels");
    expect(new TextDecoder().decode(await both.readArtifact(other))).toBe("graph");
    (await both.readArtifact(ref)).fill(0); // modifies a copy only
    expect(new TextDecoder().decode(await both.readArtifact(ref))).toBe("labels");
  });

  it("ignores bundled bytes with a wrong digest", async () => {
    const store = createModelStore(createMemoryObjectStore());
    const { ref } = await store.writeArtifact(bytes("labels"));
    const damaged = withBundledArtifacts(store, new Map([[ref.sha256, bytes("lapels").buffer]]));
    expect(new TextDecoder().decode(await damaged.readArtifact(ref))).toBe("labels");
  });
});
