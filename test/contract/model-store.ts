// What every ModelStore must do, over whichever ObjectStore driver.
import { beforeEach, describe, expect, it } from "vitest";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import { createModelStore } from "../../src/registry/store.ts";

/** @param fresh gives an empty object store for each test. */
export function modelStoreContract(driver: string, fresh: () => Promise<ObjectStore>): void {
  describe(`ModelStore over ${driver}`, () => {
    let objects: ObjectStore;
    beforeEach(async () => {
      objects = await fresh();
    });

    it("gives back an artifact that was written, once", async () => {
      const store = createModelStore(objects);
      const bytes = new TextEncoder().encode("weights");
      const first = await store.writeArtifact(bytes);
      expect(first.created).toBe(true);
      expect((await store.writeArtifact(bytes)).created).toBe(false);
      expect(await store.readArtifact(first.ref)).toEqual(bytes);
    });
  });
}
