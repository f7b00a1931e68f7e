import { describe, expect, it } from "vitest";
import { withBundledArtifacts } from "../../src/registry/bundled-artifacts.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("withBundledArtifacts", () => {
  it("reads what came along without the store, and everything else from it", async () => {
    const elsewhere = createModelStore(createMemoryObjectStore());
    const { ref } = await elsewhere.writeArtifact(bytes("labels"));
    const store = createModelStore(createMemoryObjectStore());
    const { ref: other } = await store.writeArtifact(bytes("graph"));
    const both = withBundledArtifacts(store, new Map([[ref.sha256, bytes("labels").buffer]]));
    expect(new TextDecoder().decode(await both.readArtifact(ref))).toBe("labels");
    expect(new TextDecoder().decode(await both.readArtifact(other))).toBe("graph");
    (await both.readArtifact(ref)).fill(0); // a copy: whoever writes to it spoils it for nobody
    expect(new TextDecoder().decode(await both.readArtifact(ref))).toBe("labels");
  });

  it("does not believe bytes that are not what their name says", async () => {
    const store = createModelStore(createMemoryObjectStore());
    const { ref } = await store.writeArtifact(bytes("labels"));
    const damaged = withBundledArtifacts(store, new Map([[ref.sha256, bytes("lapels").buffer]]));
    expect(new TextDecoder().decode(await damaged.readArtifact(ref))).toBe("labels");
  });
});
